#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/placement.hpp"
#include "flotilla/program/runtime.hpp"

/// A plan lowered to instructions. A value with two readers: the simulator interprets it, the trainer executes it.
///
/// Ranks that do the same work form a class. A class has *instructions* (an instruction with its operands, stated once) and *blocks* (loops
/// over instructions, in issue order); a instruction runs once per microbatch or once per step. An *event* is (instruction, microbatch):
/// "this run of this instruction is finished". An instruction starts when the events it waits for have happened and when its queue lets it:
/// compute, reduce and sum queues run one instruction to its end before the next; send and receive queues start instructions in order and
/// let them finish in any order, so a receive is posted before its message comes and a send never blocks.
namespace flotilla::program {

/// reduce: collectives inside a tensor-parallel group, which passes wait for; sum: those of a step, over replicas and over the world, which
/// need not wait for the passes of other layers. Gradients are received on a queue of their own: a gradient whose buffer is not free yet
/// must not keep activations from coming.
enum class Queue : std::uint8_t { compute, send, receive, reduce, copy, sum, receive_back };
inline constexpr int queue_count = 7;
/// Send and receive queues start instructions in order and let them finish in any order; the others run one to its end before the next.
constexpr bool runs_one_at_a_time(Queue q) { return q != Queue::send && q != Queue::receive && q != Queue::receive_back; }

enum class Op : std::uint8_t {
  load_tokens,  ///< compute: (sequences, length + 1) token ids of the microbatch -> tokens
  zero,         ///< compute: gradients of all parts and scalars become 0
  compute,      ///< compute: Instruction::operation on Instruction::layer
  send,
  receive,     ///< one message to or from peer slot Instruction::peer: Instruction::size() bytes from Instruction::offset on in `message`
  all_reduce,  ///< reduce, sum: element-wise sum over the group, in place, members added in the group's order (role `reduced`)
  reduce_scatter,  ///< reduce: sum of `reduced`, of which each member gets its own piece of the tokens, in place (collectives.hpp)
  all_gather,      ///< reduce: the group's `stats` one after the other into `gathered_stats`; or, where it names `message`, the pieces of a
                   ///< microbatch's tokens (collectives.hpp) that the members hold to all of them, in place
  pack,            ///< compute: regions of the part's gradients, one after the other, into `packed`
  unpack,          ///< compute: and back
  squared_norm,    ///< compute: scalar::squared_norm += sum of squares of the gradients that this rank owns
  reduce_scalars,  ///< sum: scalars summed over the group in its order -> totals
  optimizer,       ///< compute: AdamW on one part, with the clipping factor from totals; refreshes the weights' copy
  layer_forward,   ///< compute: Instruction::layer whole, the collectives of its tensor-parallel group inside; only in described runtimes
  layer_backward,  ///< compute: its backward pass likewise, with what Instruction::recompute repeats
  host_work,       ///< compute: the host holds the queue for Instruction::host
  reduce_scatter_shards,  ///< sum: half of an all_reduce: every member has the sum of its share (hierarchical_all_reduce.hpp) of `reduced`
  all_gather_shards,      ///< sum: the other half: everybody's share of `reduced` to all of them
  extract_shard,          ///< compute: the rank's share of `packed`, one stretch after the other, into `gradients`
};

/// What an operand is for. Each instruction names each role at most once.
enum class Role : std::uint8_t {
  tokens,
  input,
  output,
  saved,
  partial,
  gradient,
  workspace,
  logits,
  stats,
  gathered_stats,
  scalars,
  totals,
  weights,
  gradients,  ///< of the instruction's part
  token_embedding_weights,
  token_embedding_gradients,  ///< of the part that holds the token embedding
  parameters,
  moment1,
  moment2,  ///< fp32 master weights and AdamW state of the instruction's part
  message,
  reduced,
  staging,
  packed,
  kept,      ///< gradients that a split backward pass keeps for its weights' half (model::kept_layout)
  again,     ///< what a block dropped and computed again
  gathered,  ///< tokens of all members of a group that each hold a part of them
};
inline constexpr int role_count = 26;

enum class Mode : std::uint8_t { read, write, update };

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
inline constexpr std::int64_t count = 8;
}  // namespace scalar

struct Access {
  Role role;
  int buffer = -1;  ///< index into RankClass::buffers
  Mode mode = Mode::read;
  bool operator==(const Access&) const = default;
};

/// The event (instruction, microbatch - lag), where that is >= 0 and the instruction runs per microbatch; or, with lag = last, its last
/// run.
struct Wait {
  int instruction = -1;
  int lag = 0;
  bool operator==(const Wait&) const = default;
};
inline constexpr int last_run = -1;  ///< Wait::lag: the instruction's last microbatch of the step, or its only run

/// Microbatches first, first + stride, ...: `count` of them.
struct Runs {
  int first = 0, count = 0, stride = 1;
  auto operator<=>(const Runs&) const = default;
  bool holds(int microbatch) const {
    const int ahead = microbatch - first;
    return ahead >= 0 && ahead % stride == 0 && ahead / stride < count;
  }
};
bool any_holds(const std::vector<Runs>&, int microbatch);

/// A block of a part's elements: `outer` rows of `inner` elements, `stride` apart.
struct Region {
  std::int64_t outer = 1, inner = 0, offset = 0, stride = 0;
  auto operator<=>(const Region&) const = default;
};

struct Instruction {
  std::string name;  ///< "attention_forward 3", "send activation", "optimizer block 2"
  Op op = Op::compute;
  Queue queue = Queue::compute;
  model::Operation operation{};  ///< op == compute
  int layer = -1;                ///< compute, or the layer a message or collective belongs to
  int part = -1;                 ///< index into RankClass::parts: whose weights and gradients
  bool per_microbatch = true;
  bool backward = false;        ///< counts as backward work in breakdowns
  bool recompute = false;       ///< repeats forward work
  int peer = -1;                ///< send, receive: peer slot
  int channel = -1;             ///< send, receive: tells streams between the same two ranks apart
  int group = -1;               ///< all_reduce, all_gather, reduce_scalars: group slot
  Bytes bytes_per_sequence;     ///< messages and collectives of whole microbatches
  Bytes bytes;                  ///< once-per-step collectives; messages of a part of a microbatch
  Bytes offset;                 ///< messages: where theirs begins in the buffer's instance
  Bytes token;                  ///< collectives over pieces of a microbatch's tokens: bytes of one
  bool own_piece = false;       ///< messages: it is the piece of the rank's tensor index; begins at that many times its size
  std::vector<Runs> runs;       ///< per microbatch: those in which it runs, ascending; empty: all
  std::vector<Region> regions;  ///< pack, unpack
  int share = -1;               ///< squared_norm, optimizer, extract_shard: index into the part's shares; -1: the whole part
  bool once = false;            ///< send, receive: one message for the tensor-parallel group, which all of its members wait for
  Seconds host;                 ///< host_work: its time; layer passes: host time that a profiler adds to a pass which waits for the host
  std::vector<Access> accesses;
  std::vector<Wait> waits;
  bool operator==(const Instruction&) const = default;

  bool runs_in(int microbatch) const { return runs.empty() || any_holds(runs, microbatch); }
  /// Of a message or collective in a microbatch of so many sequences.
  Bytes size(int sequences) const { return bytes + bytes_per_sequence * sequences; }
  /// Where a message begins in the buffer's instance.
  Bytes begin(int tensor_index, int sequences) const { return own_piece ? tensor_index * size(sequences) : offset; }
  /// Whether a message brings less than its microbatch.
  bool is_part() const { return own_piece || bytes.count > 0; }
};

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
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots;
  std::int64_t elements = 0;
  /// Buffers; weights == parameters in fp32. Where `shares` are listed they have the moments, and in bf16 the parameters.
  int parameters = -1, weights = -1, gradients = -1, moment1 = -1, moment2 = -1;
  std::vector<OptimizerShard> shares = {};  ///< empty: the optimizer is not sharded
  bool operator==(const Part&) const = default;
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
  enum class Kind : std::uint8_t { tensor, data, tied, world };
  /// How a described runtime's library sums: the fastest of ring, tree and node by node over the group's links. Ours is direct
  /// (collectives.hpp).
  enum class Algorithm : std::uint8_t { direct, library };
  Kind kind = Kind::world;
  std::vector<Rank> members;
  Algorithm algorithm = Algorithm::direct;
  BytesPerSecond most{};          ///< a member's share of the bytes moves no faster, whatever the links; 0: the links decide
  SubgroupLevels subgroups = {};  ///< that sum inside before they sum together (hierarchical_all_reduce.hpp); empty: all at once
  bool operator==(const Group&) const = default;
};
std::string to_string(Group::Kind);

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

enum class Purpose : std::uint8_t { training, evaluation };

struct Program {
  Purpose purpose = Purpose::training;
  plan::Plan plan;
  std::vector<model::Tensor> tensors;
  std::vector<RankClass> classes;
  std::vector<RankBinding> ranks;  ///< by rank
  std::vector<Group> groups;
  std::vector<std::vector<int>> first_sequences;  ///< by deal and microbatch: the first of its sequences in the step
  bool operator==(const Program&) const = default;
};

/// Pure. Throws Error{bad_input} for an invalid plan, Error{unavailable} naming the first stage that this runtime cannot execute.
Program lower(const plan::Plan&, const Runtime&);
/// Forward passes and the loss over `sequences` sequences, dealt to the replicas in proportion to the plan's shares; the persistent
/// buffers sit where `lower` puts them.
Program lower_evaluation(const plan::Plan&, const Runtime&, int sequences);

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
