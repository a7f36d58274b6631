#pragma once
#include <string>
#include <vector>

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

/// Builds one class: first the buffers and parts, then the sites of the forward, backward and closing phases, then the loops
/// over them.
class ClassBuilder {
 public:
  explicit ClassBuilder(const ClassInput&);
  RankClass build();

 private:
  // Buffers and parts (class_builder.cpp)
  void add_parts();
  void add_part(const std::string& name, const std::vector<int>& tensors);
  void add_persistent_buffers(Part&, int part);
  void add_activations();
  void add_saved();
  void add_temporaries();
  int add_buffer(const std::string& name, Category, Bytes size, int copies = 1, bool persistent = false);
  Bytes workspace_size() const;
  int in_flight() const;

  // Sites (phases.cpp)
  void add_opening_phase();
  void add_forward_phase();
  void add_head_phase();
  void add_backward_phase();
  void add_closing_phase();
  void add_embedding_forward();
  void add_block_forward(int layer, bool recompute);
  void add_block_backward(int layer);
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
  int all_reduce_partial(int layer, int producer, bool backward);
  void consume(int event);  ///< the next compute site waits for this event of the same microbatch
  void consume_arrival(const std::vector<int>& sites);
  std::vector<Access> weights(int layer, bool gradients) const;
  std::vector<Access> word(bool gradients) const;
  void close_waits();

  bool training() const { return in_.purpose == Purpose::training; }
  bool has_embedding() const { return stage_.first_layer == 0; }
  bool has_head() const { return stage_.last_layer == in_.plan.model.layers(); }
  bool recomputes() const { return stage_.recompute == plan::Recompute::full && training(); }
  int first_block() const;
  int last_block() const;  ///< first_block() > last_block() when the stage has none
  int activation(int layer) const { return activations_[static_cast<std::size_t>(layer - stage_.first_layer)]; }
  int saved(int layer) const { return saved_[static_cast<std::size_t>(layer - stage_.first_layer)]; }
  int part_of(int layer) const { return layer_parts_[static_cast<std::size_t>(layer - stage_.first_layer)]; }

  const ClassInput& in_;
  const plan::Stage& stage_;
  const Slots slots_;
  RankClass out_;
  std::vector<int>* phase_ = nullptr;  ///< where add_site appends
  std::vector<int> opening_, forward_, backward_, closing_;
  std::vector<int> activations_, saved_, layer_parts_;  ///< by layer - first_layer; activation entering that layer (one more than layers)
  int word_part_ = -1;
  int tokens_ = -1, partial_ = -1, gradient_ = -1, workspace_ = -1, logits_ = -1, stats_ = -1, gathered_ = -1, scalars_ = -1, totals_ = -1,
      staging_ = -1, sum_staging_ = -1, discard_ = -1, head_saved_ = -1;
  std::vector<std::vector<int>> packed_;  ///< by turn (two, used alternately) and group
  std::vector<Wait> next_waits_;          ///< of the next compute site
  /// Sites that bring an activation or a gradient: messages, then the gathering of their pieces where tensors are cut.
  std::vector<int> receive_activation_, receive_gradient_;
  std::vector<int> send_activation_, send_gradient_;
};

}  // namespace flotilla::program
