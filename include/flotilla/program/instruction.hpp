#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/model/operations.hpp"

/// The instructions of a program: what every one has (queue, operands, waits), and one case for each kind of work with what that needs.
namespace flotilla::program {

/// reduce: collectives inside a tensor-parallel group, which passes wait for; sum: those of a step, over replicas and over the world, which
/// need not wait for the passes of other layers. Gradients are received on a queue of their own: a gradient whose buffer is not free yet
/// must not keep activations from coming.
enum class Queue : std::uint8_t { compute, send, receive, reduce, copy, sum, receive_back };
inline constexpr int queue_count = 7;
/// Send and receive queues start instructions in order and let them finish in any order; the others run one to its end before the next.
constexpr bool runs_one_at_a_time(Queue q) { return q != Queue::send && q != Queue::receive && q != Queue::receive_back; }

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
  kept,             ///< gradients that a split backward pass keeps for its weights' half (model::kept_layout)
  again,            ///< what a block dropped and computed again
  gathered,         ///< tokens of all members of a group that each hold a part of them
  cache,            ///< keys and values of the tokens before (model::cache_size)
  document_starts,  ///< (sequences, length) int32: where in its sequence each token's document begins (Runtime::separate_documents)
};
inline constexpr int role_count = 28;

enum class Mode : std::uint8_t { read, write, update };

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

/// Bytes of a message or collective: so many for each sequence of its microbatch, or as many in any.
struct TransferSize {
  Bytes per_sequence, fixed;
  Bytes of(int sequences) const { return fixed + per_sequence * sequences; }
  bool operator==(const TransferSize&) const = default;
};

// ---- compute queue ----

/// One operation of one layer.
struct LayerOperation {
  model::Operation operation{};
  int layer = -1;
  int part = -1;                  ///< index into RankClass::parts: of `weights` and `gradients`; -1: the layer has none here
  int token_embedding_part = -1;  ///< likewise: of `token_embedding_weights` and `token_embedding_gradients`
  bool recompute = false;         ///< repeats forward work
  bool weights_frozen = false;    ///< a backward pass whose products' own weights get no gradients, so that it is their inputs' half and
                                  ///< adapters' work alone
  bool operator==(const LayerOperation&) const = default;
};
/// (sequences, length + 1) token ids of the microbatch -> tokens.
struct TokenLoad {
  bool operator==(const TokenLoad&) const = default;
};
/// Where the documents of the microbatch's sequences begin -> document_starts.
struct DocumentLoad {
  bool operator==(const DocumentLoad&) const = default;
};
/// All operands become 0: gradients of a part, or the scalars.
struct ZeroFill {
  int part = -1;  ///< -1: the scalars
  bool operator==(const ZeroFill&) const = default;
};
/// Regions of a part's gradients or weights into `packed`, one after the other, or back.
struct RegionCopy {
  enum class Direction : std::uint8_t { pack, unpack };
  Direction direction = Direction::pack;
  int part = -1;
  Bytes bytes;
  std::vector<Region> regions;
  bool operator==(const RegionCopy&) const = default;
};
/// The rank's shard of `packed`, one range after the other, into `gradients`.
struct ShardExtraction {
  int part = -1, shard = -1;  ///< index into RankClass::parts; into the part's shards
  Bytes bytes;
  bool operator==(const ShardExtraction&) const = default;
};
/// scalar::squared_norm += sum of squares of the gradients that this rank owns.
struct SquaredNorm {
  int part = -1, shard = -1;  ///< shard -1: the whole part
  bool operator==(const SquaredNorm&) const = default;
};
/// AdamW on one part or shard, with the clipping factor from totals; refreshes the weights' copy.
struct OptimizerUpdate {
  int part = -1, shard = -1;  ///< shard -1: the whole part
  bool operator==(const OptimizerUpdate&) const = default;
};
/// A whole layer's pass, the collectives of its tensor-parallel group inside; only in described runtimes. Forward, or backward
/// (Instruction::backward).
struct LayerPass {
  int layer = -1;
  bool recompute = false;  ///< and what its recomputation repeats
  Seconds host;            ///< that a profiler adds to a pass which waits for the host
  Bytes copied;            ///< of a sequence, to the host's memory after a forward pass, or back from it for a backward pass
  int beside = 0;          ///< passes of such layers that the copies run beside
  bool operator==(const LayerPass&) const = default;
};
/// The host holds the queue.
struct HostWork {
  Seconds time;
  bool operator==(const HostWork&) const = default;
};

// ---- queues of messages and collectives ----

/// One end of a message between this rank and a peer; its bytes are part of `message`.
struct MessageEnd {
  enum class Direction : std::uint8_t { send, receive };
  Direction direction = Direction::send;
  bool own_piece = false;  ///< it is the piece of the rank's tensor index: begins at that many times its size
  bool once = false;       ///< one message for the tensor-parallel group, which all of its members wait for
  int peer = -1;           ///< peer slot
  int channel = -1;        ///< tells streams between the same two ranks apart
  TransferSize size;       ///< per sequence: of whole microbatches; fixed: of a part of one
  Bytes offset;            ///< where it begins in the buffer's instance
  std::vector<Runs> runs;  ///< microbatches in which it runs, ascending; empty: all
  bool operator==(const MessageEnd&) const = default;

  bool sends() const { return direction == Direction::send; }
  /// Where it begins in the buffer's instance.
  Bytes begin(int tensor_index, int sequences) const { return own_piece ? tensor_index * size.of(sequences) : offset; }
  /// Whether it brings less than its microbatch.
  bool is_part() const { return own_piece || size.fixed.count > 0; }
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,             ///< element-wise sum over the group, in place, members added in the group's order (role `reduced`)
  reduce_scatter,         ///< sum of `reduced`, of which each member gets its own piece of the tokens, in place (collectives.hpp)
  all_gather,             ///< the group's `stats` one after the other into `gathered_stats`; or, where it names `message`, the pieces of a
                          ///< microbatch's tokens (collectives.hpp) that the members hold to all of them, in place
  reduce_scalars,         ///< scalars summed over the group in its order -> totals
  reduce_scatter_shards,  ///< half of an all_reduce: every member has the sum of its shard (hierarchical_all_reduce.hpp) of `reduced`
  all_gather_shards,      ///< the other half: everybody's shard of `reduced` to all of them
};
/// Reduce queue: in a pass, over a tensor-parallel group. Sum queue: once a step.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int group = -1;  ///< group slot
  TransferSize size;
  Bytes token;  ///< over pieces of a microbatch's tokens: bytes of one; 0: as the buffer's size says
  bool operator==(const Collective&) const = default;
};

struct Instruction {
  using Work = std::variant<LayerOperation, TokenLoad, DocumentLoad, ZeroFill, RegionCopy, ShardExtraction, SquaredNorm, OptimizerUpdate,
                            LayerPass, HostWork, MessageEnd, Collective>;
  std::string name;  ///< "attention_forward 3", "send activation", "optimizer block 2"
  Work work;
  Queue queue = Queue::compute;
  bool per_microbatch = true;  ///< else once per step
  bool backward = false;       ///< counts as backward work in breakdowns
  std::vector<Access> accesses;
  std::vector<Wait> waits;
  bool operator==(const Instruction&) const = default;

  /// Its work where that is of the case, or null.
  template <class Case>
  const Case* as() const {
    return std::get_if<Case>(&work);
  }
  template <class Case>
  Case* as() {
    return std::get_if<Case>(&work);
  }
  bool sends() const {
    const auto* message = as<MessageEnd>();
    return message != nullptr && message->sends();
  }
  bool receives() const {
    const auto* message = as<MessageEnd>();
    return message != nullptr && !message->sends();
  }
  bool runs_in(int microbatch) const {
    const auto* message = as<MessageEnd>();
    return message == nullptr || message->runs.empty() || any_holds(message->runs, microbatch);
  }
  /// Its operand in that role, or null.
  const Access* access(Role role) const {
    for (const Access& access : accesses)
      if (access.role == role) return &access;
    return nullptr;
  }
};

}  // namespace flotilla::program
