#pragma once
#include <string>
#include <vector>

#include "chunk_loops.hpp"
#include "flotilla/program/program.hpp"
#include "rank_kind.hpp"

namespace flotilla::program {

/// What a class is lowered from.
struct ClassInput {
  const plan::Plan& plan;
  const std::vector<model::Tensor>& tensors;
  const Runtime& runtime;
  Purpose purpose = Purpose::training;
  RankKind kind;
  int tensor_index = 0;
};

constexpr Bytes fp32_size{4}, fp64_size{8};

/// What is a chunk's own: a stage's layers, buffers and sites. The builder's members of these names are those of the chunk at hand.
struct ChunkAtHand {
  int chunk_ = 0;
  plan::Stage stage_;                              ///< its layers and recomputation, without replicas
  std::vector<int> forward_, backward_, weights_;  ///< phases
  std::vector<int> activations_, saved_, kept_, dropped_,
      layer_parts_;  ///< by layer - first_layer; activation entering that layer (one more than layers)
  int gradient_ = -1;
  /// Sites that bring an activation or a gradient: messages, then the gathering of their pieces where tensors are cut.
  std::vector<int> receive_activation_, receive_gradient_;
  std::vector<int> send_activation_, send_gradient_;
};

/// All of them, without those whose buffers the class does not have.
std::vector<Access> joined(std::vector<Access>, std::initializer_list<std::vector<Access>> more);

/// Builds one class: first the buffers and parts, then the sites of the forward, backward and closing phases, then the loops
/// over them.
class ClassBuilder : private ChunkAtHand {
 public:
  explicit ClassBuilder(const ClassInput&);
  RankClass build();

 private:
  // Chunks (class_builder.cpp)
  void enter(int chunk);
  template <class What>
  void for_each_chunk(What what) {
    for (int chunk = 0; chunk < chunk_count(); ++chunk) {
      enter(chunk);
      what();
    }
  }
  std::vector<ChunkSites> sites_of_chunks();
  void join_chunks();
  int chunk_count() const { return static_cast<int>(chunks_.size()); }
  int stage_index() const { return in_.kind.stage + chunk_ * plan::own_stages(in_.plan); }
  const Parcels& parcels() const { return in_.kind.parcels[static_cast<std::size_t>(chunk_)]; }
  ChunkCopies copies() const;
  std::string of_chunk() const { return chunk_count() > 1 ? " " + std::to_string(chunk_) : ""; }  ///< behind a name
  /// All stages stand on one stage of devices: a chunk works on what the one before left in place.
  bool in_place() const { return plan::own_stages(in_.plan) == 1; }

  // Buffers and parts (class_builder.cpp)
  void add_parts();
  void add_word_part();
  void add_part(const std::string& name, const std::vector<int>& tensors);
  void add_persistent_buffers(Part&, int part);
  void add_activations();
  void add_saved();
  void add_temporaries();
  int add_buffer(std::string name, Category, Bytes size, int copies = 1, bool persistent = false);
  Bytes workspace_size() const;
  int in_flight() const;
  int until_weights(int copies) const;  ///< of what the weights' half of a backward pass reads, if `copies` last until its inputs' half

  // Sites (phases.cpp)
  void add_opening_phase();
  void add_forward_phase();
  void add_head_phase();
  void add_backward_phase();
  void add_closing_phase();
  void add_embedding_forward();
  void add_block_forward(int layer, bool recompute);
  void add_block_again(int layer);
  void add_block_backward(int layer);

  // Weights' halves of split backward passes (weights_halves.cpp)
  void add_weights_halves();
  void add_shared_weights_halves();
  void add_weights_half(model::Operation, int layer, int gradient, int rows);
  std::vector<Wait> add_weights_begin(model::Operation, int layer, int gradient, int rows);
  std::vector<std::vector<int>> weights_by_layer() const;

  // What comes from other stages and goes to them (messages.cpp)
  void add_receive_activation();
  void add_send_activation();
  void add_receive_gradient();
  void add_send_gradient();
  Site message(Op, int layer, const Parcel&, bool backward) const;
  std::vector<int> add_receives(const std::vector<Parcel>&, int layer, bool backward);
  std::vector<int> add_sends(const std::vector<Parcel>&, int layer, bool backward, int producer);
  int add_gather(const std::vector<int>& receives, int layer, bool backward);
  void close_activation_waits();
  void close_gradient_waits();

  // The end of a step (closing.cpp)
  void add_part_reductions();
  const Summing& summing_of(int part) const;
  const std::vector<int>& slots_of_part(int part) const;
  std::vector<Wait> after_backward(int part) const;
  int add_sum(int part, int buffer, int slot, Bytes, std::vector<Wait>);
  Bytes sum_staging() const;
  std::vector<int> add_packed_sums(int part, int turn);
  void add_unpacking(int part, int turn, const std::vector<int>& sums);
  void add_norm(int part, int reduction, int share = -1);
  void add_packed_buffers();
  std::int64_t packed_elements(int part, const Sharers&) const;
  std::vector<Region> shared_regions_of(const Part&, int part, const Sharers&) const;
  int last_adding_scalars() const;
  void add_optimizer();
  void add_optimizer_of(int part, int share, int totals);

  // Optimizers shared out (shares.cpp)
  bool shares_out(int part) const;
  void add_shares(Part&, int part);
  void add_share_buffers(Part&, PartShare&, const std::string& name);
  void add_taking(int part, int turn, const std::vector<int>& sums);
  int add_weights_gather(int part, int share, int buffer, int optimizer);
  void add_shared_optimizers(int totals);
  void add_weights_unpacking(int part, int turn, const std::vector<int>& gathers);
  int add_compute(model::Operation, int layer, std::vector<Access>, bool recompute = false);
  int add_site(Site);
  int sum_partial(int layer, int producer, bool backward);
  // Tokens shared between products (shared_tokens.cpp)
  void add_whole_sums();
  int add_whole_sum(int part, std::int64_t elements);
  void gather_rows(int layer, std::initializer_list<int> buffers, int producer, bool backward);
  void add_begin(model::Operation, int layer, std::vector<Access>, bool recompute, std::initializer_list<int> gathered);
  void consume(int event);  ///< the next compute site waits for this event of the same microbatch
  void consume_arrival(const std::vector<int>& sites);
  std::vector<Access> weights(int layer, bool gradients) const;
  std::vector<Access> word(bool gradients) const;
  void close_waits();

  bool training() const { return in_.purpose == Purpose::training; }
  bool has_embedding() const { return stage_.first_layer == 0; }
  bool has_head() const { return stage_.last_layer == in_.plan.model.layers(); }
  bool splits() const { return in_.kind.order.splits() && training(); }
  bool recomputes() const { return stage_.recompute == plan::Recompute::full && training(); }
  /// Between products each member of the tensor-parallel group holds its part of the tokens.
  bool shares() const { return out_.shape.sequence_parallel; }
  /// Blocks drop what is cheap to compute again.
  bool drops() const { return stage_.recompute == plan::Recompute::selective && training(); }
  int again() const { return drops() ? again_ : -1; }
  /// Computed again for the backward pass; where that is split, until the weights' half has read it.
  int again(int layer) const { return splits() ? dropped_[static_cast<std::size_t>(layer - stage_.first_layer)] : again(); }
  model::BlockLayout block_layout() const { return model::block_layout(in_.plan.model, out_.shape, drops()); }
  int first_block() const;
  int last_block() const;  ///< first_block() > last_block() when the stage has none
  int activation(int layer) const { return activations_[static_cast<std::size_t>(layer - stage_.first_layer)]; }
  int kept(int layer) const { return kept_[static_cast<std::size_t>(layer - stage_.first_layer)]; }
  int saved(int layer) const { return saved_[static_cast<std::size_t>(layer - stage_.first_layer)]; }
  int part_of(int layer) const { return layer_parts_[static_cast<std::size_t>(layer - stage_.first_layer)]; }

  const ClassInput& in_;
  const Slots slots_;
  RankClass out_;
  std::vector<int>* phase_ = nullptr;  ///< where add_site appends
  std::vector<ChunkAtHand> chunks_;    ///< those that are not at hand
  std::vector<int> opening_, closing_;
  int word_part_ = -1, shared_saved_ = -1;
  int tokens_ = -1, partial_ = -1, workspace_ = -1, logits_ = -1, stats_ = -1, gathered_ = -1, scalars_ = -1, totals_ = -1, staging_ = -1,
      sum_staging_ = -1, discard_ = -1, head_saved_ = -1, again_ = -1, gathered_rows_ = -1, partial_ahead_ = -1, rows_ahead_ = -1;
  std::vector<int> whole_sums_;  ///< by part: sums the gradients that every member holds whole; -1 or none where tokens are not shared
  std::vector<std::vector<int>> packed_;  ///< by turn (two, used alternately) and group
  std::vector<Wait> next_waits_;          ///< of the next compute site
};

}  // namespace flotilla::program
