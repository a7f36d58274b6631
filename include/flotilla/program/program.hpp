#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/instruction.hpp"
#include "flotilla/program/rank_locations.hpp"
#include "flotilla/program/runtime.hpp"

/// A plan lowered to instructions. A value with two readers: the simulator interprets it, the trainer executes it.
///
/// Ranks that do the same work form a class. A class has *instructions* (an instruction with its operands, stated once) and *blocks* (loops
/// over instructions, in issue order); an instruction runs once per microbatch or once per step. An *event* is (instruction, microbatch):
/// "this run of this instruction is finished". An instruction starts when the events it waits for have happened and when its queue lets it:
/// compute, reduce and sum queues run one instruction to its end before the next; send and receive queues start instructions in order and
/// let them finish in any order, so a receive is posted before its message comes and a send never blocks.
namespace flotilla::program {

/// Why memory is held; the forecast's breakdown.
enum class Category : std::uint8_t { parameters, gradients, optimizer, activations, communication, workspace };
inline constexpr int category_count = 6;

/// A region of the arena with `copies` instances, `stride` bytes apart; microbatch m uses instance m mod copies.
struct Buffer {
  std::string name;
  Category category = Category::workspace;
  Bytes size;
  int copies = 1;
  bool persistent = false;  ///< holds its value from step to step; never shares memory
  Bytes offset, stride;     ///< set by the layout; offsets are multiples of arena_alignment
  bool operator==(const Buffer&) const = default;
};
inline constexpr std::int64_t arena_alignment = 64;

/// What the scalars and totals (fp64) of a step mean. Sums over the world run in rank order.
namespace scalar {
inline constexpr std::size_t loss = 0;             ///< sum of token losses; member 0 of a tensor-parallel group speaks for it
inline constexpr std::size_t squared_norm = 1;     ///< of the gradient, every element once
inline constexpr std::size_t stop = 2;             ///< how many ranks want to stop after this step
inline constexpr std::size_t save = 3;             ///< how many ranks want a checkpoint after this step
inline constexpr std::size_t not_finite = 4;       ///< how many ranks met a loss or gradient that is not finite
inline constexpr std::size_t not_finite_rank = 5;  ///< sum of their numbers
inline constexpr std::size_t change = 6;           ///< how many ranks know of another plan to go on with
inline constexpr std::size_t given_up = 7;         ///< how many ranks left work of the step undone, so that nobody may update parameters
inline constexpr std::size_t counted = 8;          ///< tokens whose loss is in `loss`
inline constexpr std::size_t digest = 9;           ///< of the step's sequences: a number of 64 bits, its low and its high half
inline constexpr std::int64_t count = 11;
/// Behind those, of each of Program::sources: the sum of its token losses, and the tokens that are in it.
constexpr std::size_t source_loss(int source) { return static_cast<std::size_t>(count) + 2 * static_cast<std::size_t>(source); }
constexpr std::size_t source_counted(int source) { return source_loss(source) + 1; }
constexpr std::int64_t number(int sources) { return count + 2 * std::int64_t{sources}; }
}  // namespace scalar

/// `repeat` times over `steps`; iteration i runs step s for microbatch s.microbatch + i.
struct Block {
  struct Step {
    int instruction = -1;
    int microbatch = 0;
    bool operator==(const Step&) const = default;
  };
  int repeat = 1;
  std::vector<Step> steps;
  bool operator==(const Block&) const = default;
};

/// Where the optimizer is sharded (plan::Plan::shard_optimizer): what one group sums of a part, and this rank's share of that. The
/// share's buffers hold its stretches (share_of), one after the other.
struct OptimizerShard {
  /// Elements of one slot among those summed.
  struct Span {
    int slot = -1;                         ///< index into Part::slots
    std::int64_t first = 0, elements = 0;  ///< among those summed
    std::int64_t region = 0, regions = 0;  ///< packed: which of `regions`
    bool operator==(const Span&) const = default;
  };
  int group = -1;               ///< group slot
  std::int64_t summed = 0;      ///< elements that the group sums: the part's own, or what is packed of it
  std::int64_t most = 0;        ///< elements of the share at most: what its buffers have room for
  std::vector<Span> spans;      ///< ascending
  std::vector<Region> regions;  ///< packed: the part's elements in the order packed; else empty
  /// Buffers. Not packed: gradients are the part's, and so are the parameters in fp32.
  int parameters = -1, gradients = -1, moment1 = -1, moment2 = -1;
  bool operator==(const OptimizerShard&) const = default;
  bool packed() const { return !regions.empty(); }
};

/// Parameters that are reduced and updated together: one layer's own, or the token embedding.
struct Part {
  std::string name;  ///< "layer 3", "word"
  struct Slot {
    int tensor = -1;            ///< index into model::tensors(plan.model)
    std::int64_t offset = 0;    ///< elements from the part's start
    std::int64_t elements = 0;  ///< of this rank's shard
    bool trained = true;        ///< else its tensor is frozen
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots;  ///< those that are trained first
  std::int64_t elements = 0;
  /// Buffers; weights == parameters in fp32. Where `shares` are listed they have the moments, and in bf16 the parameters. Gradients and
  /// moments are of the trained elements; -1 where there are none.
  int parameters = -1, weights = -1, gradients = -1, moment1 = -1, moment2 = -1;
  int frozen_parameters = -1;               ///< of the elements from trained_elements() on, where `shares` have the others' parameters
  std::vector<OptimizerShard> shards = {};  ///< empty: the optimizer is not sharded
  bool operator==(const Part&) const = default;

  /// Those that have a gradient: the first ones.
  std::int64_t trained_elements() const {
    for (const Slot& slot : slots)
      if (!slot.trained) return slot.offset;
    return elements;
  }
};

struct RankClass {
  int stage = 0;  ///< the first of the stages that its devices hold; the others follow at a distance of plan::own_stages()
  std::string device_type;
  model::LayerShape shape;  ///< of a full microbatch; tensor_index is that of the class's first rank
  int microbatches = 0;
  int last_sequences = 0;  ///< sequences in the last microbatch
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<Block> blocks;
  std::vector<Part> parts;
  int scratch = -1;  ///< the buffer handed to the matrix library as its scratchpad, or -1
  Bytes arena;       ///< end of the highest buffer
  bool operator==(const RankClass&) const = default;

  int sequences(int microbatch) const { return microbatch == microbatches - 1 ? last_sequences : shape.sequences; }
};

/// An ordered set of ranks; sums run in this order.
struct Group {
  enum class Kind : std::uint8_t { tensor, data, tied, world, pair };
  /// library: how a described runtime's library sums, the fastest of ring, tree and node by node over the group's links. Ours is direct
  /// (collectives.hpp), but for all-reduces that are NCCL's by choice.
  enum class Algorithm : std::uint8_t { direct, library, library_all_reduce };
  Kind kind = Kind::world;
  std::vector<Rank> members;
  Algorithm algorithm = Algorithm::direct;
  BytesPerSecond most{};          ///< a member's share of the bytes moves no faster, whatever the links; 0: the links decide
  SubgroupLevels subgroups = {};  ///< that sum inside before they sum together (hierarchical_all_reduce.hpp); empty: all at once
  bool operator==(const Group&) const = default;
};
std::string to_string(Group::Kind);
/// Whether a library, and not we, makes this collective of the group.
inline bool by_library(const Group& group, CollectiveKind kind) {
  return group.algorithm == Group::Algorithm::library ||
         (group.algorithm == Group::Algorithm::library_all_reduce && kind == CollectiveKind::all_reduce);
}

struct RankBinding {
  int rank_class = -1;  ///< -1: this rank idles
  int tensor_index = 0;
  int replica = 0;
  int batch_partition = -1;  ///< index into Program::first_sequences
  std::vector<Rank> peers;   ///< by peer slot
  std::vector<int> groups;   ///< by group slot: index into Program::groups
  std::vector<int> owned;    ///< tensors (model index) whose squares and checkpoint parts this rank owns, where optimizers are not sharded
  std::vector<int> whole;    ///< group slots: in shares of their sums, tensors that everybody holds whole are this rank's to own
  bool operator==(const RankBinding&) const = default;
};

/// inference: forward passes, as evaluation, over weights that nothing trains: parts have no gradients and no optimizer.
enum class Purpose : std::uint8_t { training, evaluation, inference };

struct Program {
  Purpose purpose = Purpose::training;
  plan::Plan plan;
  std::vector<model::Tensor> tensors;
  std::vector<RankClass> classes;
  std::vector<RankBinding> ranks;  ///< by rank
  std::vector<Group> groups;
  std::vector<std::vector<int>> first_sequences;  ///< by deal and microbatch: the first of its sequences in the step
  int sources = 0;                                ///< as Runtime's
  bool operator==(const Program&) const = default;
};

/// Pure. Throws Error{bad_input} for an invalid plan, Error{unavailable} naming the first stage that this runtime cannot execute.
Program lower(const plan::Plan&, const Runtime&);
/// Forward passes and the loss over `sequences` sequences, dealt to the replicas in proportion to the plan's shares; the persistent
/// buffers sit where `lower` puts them.
Program lower_evaluation(const plan::Plan&, const Runtime&, int sequences);
/// The same over weights alone: for looking at a model. With `cache`, keys and values of so many tokens of a sequence are kept from pass to
/// pass. Programs of one plan that differ in its length alone keep their persistent buffers at the same places, given the same runtime,
/// sequences and cache. One microbatch a replica where there is a cache: refused otherwise (Error{bad_input}).
Program lower_inference(const plan::Plan&, const Runtime&, int sequences, int cache = 0);

/// One instruction of one rank.
struct IssuedInstruction {
  int instruction = -1;
  int microbatch = 0;
  std::vector<int> waits;  ///< positions in the rank's list, all earlier
  bool operator==(const IssuedInstruction&) const = default;
};
/// All instructions of a rank in issue order; its queues run them in this order.
std::vector<IssuedInstruction> expand(const Program&, Rank);

/// One broken rule: which rule, where, in words.
struct Violation {
  enum class Rule : std::uint8_t { structure, message_order, cycle, memory, group_order };
  Rule rule;
  std::string what;
};
/// Proof that the program ends and computes what it says; empty when it holds. Checks one representative of every kind of rank:
/// references are in range; both ends of every ordered pair of ranks list the same messages in the same order; overlapping groups
/// have one global order; queue order, waits, messages and collectives together have no cycle; two accesses of one byte of the arena
/// of which one writes are ordered, and what is read is what was last written for that buffer and microbatch.
std::vector<Violation> validate(const Program&);
/// Throws Error{internal} with the first violation.
void require_valid(const Program&);

/// Offset in the arena of a buffer's instance.
inline Bytes offset_of(const Buffer& b, int microbatch) { return b.offset + (microbatch % b.copies) * b.stride; }

/// Bytes of a class's arena by category; overlapping buffers count where they end the arena, so the sum is the arena.
std::vector<Bytes> arena_breakdown(const RankClass&);

}  // namespace flotilla::program
