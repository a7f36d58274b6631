// Seconds of every operation of one layer of each kind, beside the same matrix products alone in oneDNN: the same shapes, the causal half
// of attention, the scores computed once more in backward, and nothing else. Passes of both are interleaved; medians are printed.
//
//   compute_benchmark [model=gpt2] [length=1024] [sequences=1] [precision=fp32|bf16] [threads=2] [passes=7] [dropout=0]
//                     [window=0] [document=0] [clock=wall|cpu]
//
// document=N: sequences of documents of N tokens, kept apart.
//
// clock=cpu counts this process's CPU seconds: with threads=1 it can be trusted on a machine that others use at the same time.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <string>

#include "attention.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/model/tensors.hpp"
#include "products.hpp"

namespace {

using namespace flotilla;
using compute::ProductOperands;
using compute::ProductSpec;
using compute::cpu::Product;
using model::Operation;
using program::Role;

struct Options {
  std::string model = "gpt2";
  int length = 1024, sequences = 1, threads = 2, passes = 7, window = 0, document = 0;
  Precision precision = Precision::fp32;
  double dropout = 0;
  bool cpu_clock = false;
};

Options parse(int argc, char** argv) {
  std::map<std::string, std::string> values;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    FLOTILLA_REQUIRE(equals != std::string::npos, ErrorKind::usage, "'", argument, "' is not of the form name=value");
    values[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  Options o;
  const auto take = [&](const char* name, auto&& set) {
    const auto found = values.find(name);
    if (found == values.end()) return;
    set(found->second);
    values.erase(found);
  };
  take("model", [&](const std::string& v) { o.model = v; });
  take("length", [&](const std::string& v) { o.length = std::stoi(v); });
  take("sequences", [&](const std::string& v) { o.sequences = std::stoi(v); });
  take("threads", [&](const std::string& v) { o.threads = std::stoi(v); });
  take("passes", [&](const std::string& v) { o.passes = std::stoi(v); });
  take("window", [&](const std::string& v) { o.window = std::stoi(v); });
  take("document", [&](const std::string& v) { o.document = std::stoi(v); });
  take("dropout", [&](const std::string& v) { o.dropout = std::stod(v); });
  take("clock", [&](const std::string& v) { o.cpu_clock = v == "cpu"; });
  take("precision", [&](const std::string& v) { o.precision = parse_precision(v); });
  FLOTILLA_REQUIRE(values.empty(), ErrorKind::usage, "'", values.begin()->first, "' is not an option of this benchmark");
  return o;
}

compute::Setup setup_of(const Options& o) {
  compute::Setup s{model::built_in(o.model), o.length, 1, 0, o.precision, o.threads, 1};
  s.model.blocks = 1;
  s.model.positions = std::max(s.model.positions, o.length);
  s.model.dropout = s.model.attention_dropout = o.dropout;
  s.model.windows = {o.window};
  s.documents = o.document > 0;
  return s;
}

/// Pages touched, contents small but not zero.
class Memory {
 public:
  explicit Memory(Bytes size) : bytes_(static_cast<std::size_t>(size.count) / 2 + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    start_ = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::uint16_t>(0x3c00 + 37 * i % 128 + (i % 3 ? 0x8000 : 0));
  }
  std::byte* data() { return start_; }

 private:
  std::vector<std::uint16_t> bytes_;
  std::byte* start_;
};

/// One layer of each kind with all its buffers, as a trainer would hold them.
class Layers {
 public:
  explicit Layers(const Options&);
  void run(Operation);
  /// What follows the microbatches, on a block's parameters: gradients to zero, their norm, AdamW.
  void zero() { backend_->fill({at(1, Role::gradients), 4 * static_cast<std::size_t>(parts_[1].elements)}, 0); }
  double squared_norm() {
    double sum = 0;
    backend_->add_squared_norm({reinterpret_cast<float*>(at(1, Role::gradients)), static_cast<std::size_t>(parts_[1].elements)}, &sum);
    return sum;
  }
  void adamw();
  std::int64_t block_parameters() const { return parts_[1].elements; }
  double flops(Operation o) const { return model::flops(setup_.model, shape_, o); }

 private:
  Bytes activation_bytes() const { return element_size(setup_.precision) * (shape_.tokens() * setup_.model.hidden); }
  program::Part part_of(int layer) const;
  int layer_of(Operation) const;
  std::byte* at(int layer, Role role) { return memory_.at({layer, role}).data(); }

  compute::Setup setup_;
  model::LayerShape shape_;
  std::unique_ptr<compute::Backend> backend_;
  program::Part parts_[3], word_part_;
  std::map<std::pair<int, Role>, Memory> memory_;
  Memory scratch_;
  std::vector<std::int32_t> tokens_, starts_;
  double loss_[program::scalar::count] = {};
};

program::Part Layers::part_of(int layer) const {
  program::Part part;
  const auto tensors = model::tensors(setup_.model);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const bool word = tensors[t].tied_layer >= 0;
    if (layer < 0 ? !word : word || tensors[t].layer != layer) continue;
    part.slots.push_back({static_cast<int>(t), part.elements, tensors[t].elements()});
    part.elements += (tensors[t].elements() + 15) / 16 * 16;
  }
  return part;
}

Layers::Layers(const Options& o)
    : setup_{setup_of(o)},
      shape_{o.sequences, o.length, 1, 0, o.precision},
      backend_{compute::make_backend(setup_)},
      word_part_{part_of(-1)},
      scratch_{compute::library_scratch(setup_, o.sequences)},
      tokens_(static_cast<std::size_t>(o.sequences * (o.length + 1))) {
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    tokens_[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(setup_.model.vocabulary));
  for (int i = 0; o.document > 0 && i < o.sequences * o.length; ++i) starts_.push_back(i % o.length / o.document * o.document);
  backend_->set_scratch({scratch_.data(), static_cast<std::size_t>(compute::library_scratch(setup_, o.sequences).count)});
  const auto hold = [&](int layer, Role role, Bytes size) { memory_.try_emplace({layer, role}, size); };
  const Bytes e = element_size(o.precision);
  Bytes workspace{};
  for (int i = 0; i < model::all_operation_count; ++i)
    workspace = std::max(workspace, model::workspace(setup_.model, shape_, static_cast<Operation>(i), o.threads));
  hold(-1, Role::workspace, workspace);
  hold(-1, Role::partial, activation_bytes());
  hold(-1, Role::gradient, activation_bytes());
  hold(-1, Role::kept, model::kept_layout(setup_.model, shape_).total);
  hold(-1, Role::logits, Bytes{4} * (shape_.tokens() * model::logits_pitch(setup_.model, shape_)));
  hold(-1, Role::stats, Bytes{12} * shape_.tokens());
  hold(-1, Role::token_embedding_weights, e * word_part_.elements);
  hold(-1, Role::token_embedding_gradients, Bytes{4} * word_part_.elements);
  const Bytes saved[] = {model::embedding_layout(setup_.model, shape_).total, model::block_layout(setup_.model, shape_).total,
                         model::head_layout(setup_.model, shape_).total};
  for (int layer = 0; layer < 3; ++layer) {
    parts_[layer] = part_of(layer);
    hold(layer, Role::weights, e * parts_[layer].elements);
    hold(layer, Role::gradients, Bytes{4} * parts_[layer].elements);
    for (Role role : {Role::parameters, Role::moment1, Role::moment2}) hold(layer, role, Bytes{4} * parts_[layer].elements);
    hold(layer, Role::saved, saved[layer]);
    hold(layer, Role::input, activation_bytes());
    hold(layer, Role::output, activation_bytes());
  }
}

int Layers::layer_of(Operation o) const {
  switch (o) {
    case Operation::embedding_forward:
    case Operation::embedding_end_forward:
    case Operation::embedding_backward: return 0;
    case Operation::head_forward:
    case Operation::head_loss:
    case Operation::head_backward:
    case Operation::head_backward_input:
    case Operation::head_backward_weights:
    case Operation::head_end_backward: return 2;
    default: return 1;
  }
}

void Layers::run(Operation o) {
  compute::Task t;
  t.operation = o;
  t.layer = layer_of(o);
  t.sequences = shape_.sequences;
  t.part = &parts_[t.layer];
  t.token_embedding_part = &word_part_;
  t.loss_scale = 1e-3f;
  const auto set = [&](Role role, std::byte* p) { t.operands[static_cast<std::size_t>(role)] = p; };
  for (auto& [key, memory] : memory_)
    if (key.first < 0 || key.first == t.layer) set(key.second, memory.data());
  set(Role::gathered_stats, t.operand<std::byte>(Role::stats));
  set(Role::tokens, reinterpret_cast<std::byte*>(tokens_.data()));
  if (setup_.documents) set(Role::document_starts, reinterpret_cast<std::byte*>(starts_.data()));
  set(Role::scalars, reinterpret_cast<std::byte*>(loss_));
  backend_->run(t);
}

void Layers::adamw() {
  const std::vector<std::uint8_t> decays(parts_[1].slots.size(), 1);
  const auto floats = [&](Role role) { return reinterpret_cast<float*>(at(1, role)); };
  backend_->adamw({}, parts_[1], decays, floats(Role::parameters), at(1, Role::weights), floats(Role::gradients), floats(Role::moment1),
                  floats(Role::moment2));
}

/// The products of an operation and nothing else.
class ProductsAlone {
 public:
  ProductsAlone(const Options& o, const model::Config& c) : o_{o}, c_{c}, products_{o.threads} {
    const model::LayerShape s{o.sequences, o.length, 1, 0, o.precision};
    const std::int64_t n = s.tokens(), largest = 4 * n * std::max<std::int64_t>(4 * c.hidden, model::up_width(c, s));
    const std::int64_t logits = 4 * n * model::logits_pitch(c, s), word = 4 * std::int64_t{c.vocabulary} * c.embedding_width;
    const Bytes size{std::max({largest, logits, word, std::int64_t{16} * c.hidden * c.feed_forward})};
    for (auto& m : operands_) m = std::make_unique<Memory>(size);
    const compute::Setup setup = setup_of(o);
    qkv_ = model::qkv_width(c, s);
    up_ = model::up_width(c, s);
    const Bytes scratch = compute::library_scratch(setup, o.sequences);
    scratch_ = std::make_unique<Memory>(scratch);
    products_.set_scratch({scratch_->data(), static_cast<std::size_t>(scratch.count)});
    specs_ = compute::cpu::attention_specs(setup, compute::cpu::attention_window(setup, 0));
    score_bytes_ = 4 * model::attention_block * model::attention_pitch(o.length) + 8 * std::int64_t{o.length} * c.head_size();
    scores_ = std::make_unique<Memory>(Bytes{2 * score_bytes_ * o.threads});
  }

  void run(Operation o) {
    const std::int64_t n = std::int64_t{o_.sequences} * o_.length, d = c_.hidden, f = c_.feed_forward;
    switch (o) {
      case Operation::attention_forward: forward(n, qkv_, d), attention(false), forward(n, d, d); break;
      case Operation::mlp_forward: forward(n, up_, d), forward(n, d, f); break;
      case Operation::mlp_backward: backward(n, d, f), backward(n, up_, d); break;
      case Operation::attention_backward: backward(n, d, d), attention(true), backward(n, qkv_, d); break;
      case Operation::head_forward: head(n, 0); break;
      case Operation::head_backward: head(n, 1); break;
      default: break;
    }
  }

 private:
  std::byte* at(std::size_t i) { return operands_[i]->data(); }
  void product(const ProductSpec& s) { products_.run(s, {.a = at(0), .b = at(1), .bias = at(1), .c = at(2)}); }
  void forward(std::int64_t n, std::int64_t out, std::int64_t in) { product(compute::linear_forward(o_.precision, n, out, in)); }
  void backward(std::int64_t n, std::int64_t out, std::int64_t in) {
    product(compute::linear_input_gradient(o_.precision, n, out, in));
    product(compute::linear_weight_gradient(o_.precision, n, out, in));
  }
  void head(std::int64_t n, int pass) {
    const std::int64_t pitch = model::logits_pitch(c_, {o_.sequences, o_.length, 1, 0, o_.precision});
    const std::int64_t gradient_pitch = o_.precision == Precision::fp32 ? pitch : 2 * pitch;
    ProductSpec s = compute::linear_forward(o_.precision, n, c_.vocabulary, c_.embedding_width);
    s.c_fp32 = true;
    s.c_row = pitch;
    if (pass == 0) return product(s);
    s = compute::linear_input_gradient(o_.precision, n, c_.vocabulary, c_.embedding_width);
    s.a_row = gradient_pitch;
    product(s);
    s = compute::linear_weight_gradient(o_.precision, n, c_.vocabulary, c_.embedding_width);
    s.a_column = gradient_pitch;
    product(s);
  }

  /// The blocks of every head of every sequence, dealt to threads as attention does.
  void attention(bool backward) {
    std::vector<std::vector<Product*>> blocks;
    std::int64_t scratch = 0;
    for (const auto& b : specs_) {
      auto& list = blocks.emplace_back();
      for (const ProductSpec* s :
           backward ? std::vector{&b.scores, &b.probability_gradient, &b.query_gradient, &b.key_gradient, &b.value_gradient}
                    : std::vector{&b.scores, &b.values}) {
        list.push_back(&products_.per_thread(*s));
        scratch = std::max(scratch, list.back()->scratch_bytes());
      }
    }
    const std::int64_t pairs = std::int64_t{o_.sequences} * c_.heads, tasks = pairs * static_cast<std::int64_t>(blocks.size());
#pragma omp parallel num_threads(o_.threads)
    {
      const int thread = omp_get_thread_num();
      std::byte* scores = scores_->data() + 2 * score_bytes_ * thread;
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < tasks; ++i)
        attention_block(blocks[static_cast<std::size_t>(i / pairs)], i % pairs, scores, thread, scratch);
    }
  }

  void attention_block(const std::vector<Product*>& block, std::int64_t pair, std::byte* scores, int thread, std::int64_t scratch) {
    const std::int64_t e = element_size(o_.precision).count, head = pair % c_.heads * c_.head_size() * e;
    std::byte* qkv = at(0) + pair / c_.heads * o_.length * qkv_ * e + head;
    std::byte* mine = products_.thread_scratch(thread, scratch);
    block[0]->run({.a = qkv, .b = qkv, .c = scores}, mine, thread);
    if (block.size() == 2) {
      block[1]->run({.a = scores, .b = qkv, .c = at(2) + head}, mine, thread);
      return;
    }
    block[1]->run({.a = at(1) + head, .b = qkv, .c = scores + score_bytes_}, mine, thread);
    block[2]->run({.a = scores, .b = qkv, .c = at(2) + head}, mine, thread);
    for (std::size_t i : {3, 4})
      block[i]->run({.a = scores, .b = qkv, .c = o_.precision == Precision::fp32 ? at(2) + head : scores + score_bytes_}, mine, thread);
  }

  const Options& o_;
  model::Config c_;
  compute::cpu::Products products_;
  std::unique_ptr<Memory> operands_[3], scratch_, scores_;
  std::vector<compute::cpu::AttentionSpecs> specs_;
  std::int64_t score_bytes_ = 0, qkv_ = 0, up_ = 0;
};

double seconds(bool cpu_clock) { return cpu_clock ? static_cast<double>(std::clock()) / CLOCKS_PER_SEC : now().value; }

double timed(bool cpu_clock, const std::function<void()>& work) {
  const double start = seconds(cpu_clock);
  work();
  return seconds(cpu_clock) - start;
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

struct Row {
  Operation operation;
  std::vector<double> ours, alone;
};

void print(const char* name, double ours, double alone, double flops) {
  std::printf("%-24s %9.3f ms  %9.3f ms  %6.2f  %8.1f GFLOP/s\n", name, ours * 1e3, alone * 1e3, alone > 0 ? ours / alone : 0,
              flops / ours * 1e-9);
}

void print_sum(const char* name, const std::vector<Row>& rows, std::size_t first, std::size_t last, const Layers& layers) {
  std::vector<double> ours, alone, ratios;
  double flops = 0;
  for (std::size_t r = first; r < last; ++r) flops += layers.flops(rows[r].operation);
  for (std::size_t pass = 0; pass < rows[first].ours.size(); ++pass) {
    double a = 0, b = 0;
    for (std::size_t r = first; r < last; ++r) a += rows[r].ours[pass], b += rows[r].alone[pass];
    ours.push_back(a), alone.push_back(b), ratios.push_back(a / b);
  }
  print(name, median(ours), median(alone), flops);
  std::printf("%-24s median of the passes' ratios %.3f\n", "", median(ratios));
}

/// What it costs to make a backward pass in two halves: both, against the whole.
void print_halves(const std::vector<Row>& rows, std::size_t whole, std::size_t halves) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rows[whole].ours.size(); ++i)
    ratios.push_back((rows[halves].ours[i] + rows[halves + 1].ours[i]) / rows[whole].ours[i]);
  std::printf("%-24s halves / whole %.3f\n", std::string{model::to_string(rows[whole].operation)}.c_str(), median(ratios));
}

/// Once per step, in nanoseconds for a parameter.
void print_optimizer(Layers& layers, const Options& o) {
  std::vector<double> zero, norm, adamw;
  double sink = 0;
  for (int pass = 0; pass < o.passes; ++pass) {
    zero.push_back(timed(o.cpu_clock, [&] { layers.zero(); }));
    norm.push_back(timed(o.cpu_clock, [&] { sink += layers.squared_norm(); }));
    adamw.push_back(timed(o.cpu_clock, [&] { layers.adamw(); }));
  }
  const double per = 1e9 / static_cast<double>(layers.block_parameters());
  std::printf("per parameter: zero %.3f ns, squared norm %.3f ns, AdamW %.3f ns (norm %g)\n", median(zero) * per, median(norm) * per,
              median(adamw) * per, sink);
}

void benchmark(const Options& o) {
  omp_set_num_threads(o.threads);
  Layers layers{o};
  ProductsAlone alone{o, model::built_in(o.model)};
  std::vector<Row> rows;
  for (Operation op :
       {Operation::attention_forward, Operation::mlp_forward, Operation::block_end_forward, Operation::mlp_backward,
        Operation::attention_backward, Operation::block_begin_backward, Operation::head_forward, Operation::head_loss,
        Operation::head_backward, Operation::head_end_backward, Operation::embedding_forward, Operation::embedding_end_forward,
        Operation::embedding_backward, Operation::mlp_backward_input, Operation::mlp_backward_weights, Operation::attention_backward_input,
        Operation::attention_backward_weights, Operation::head_backward_input, Operation::head_backward_weights})
    rows.push_back({op, {}, {}});
  for (int pass = -1; pass < o.passes; ++pass)
    for (Row& row : rows) {
      const double ours = timed(o.cpu_clock, [&] { layers.run(row.operation); });
      const double products = timed(o.cpu_clock, [&] { alone.run(row.operation); });
      if (pass < 0) continue;  // the first constructs the primitives
      row.ours.push_back(ours);
      row.alone.push_back(products);
    }
  std::printf("%s, length %d, %d sequences, %s, %d threads, dropout %g, median of %d interleaved passes\n", o.model.c_str(), o.length,
              o.sequences, to_string(o.precision).c_str(), o.threads, o.dropout, o.passes);
  std::printf("%-24s %12s  %12s  %6s\n", "operation", "ours", "products", "ratio");
  for (const Row& row : rows)
    print(std::string{model::to_string(row.operation)}.c_str(), median(row.ours), median(row.alone), layers.flops(row.operation));
  print_sum("block, both passes", rows, 0, 6, layers);
  print_sum("head, both passes", rows, 6, 10, layers);
  print_halves(rows, 3, 13);
  print_halves(rows, 4, 15);
  print_halves(rows, 8, 17);
  print_optimizer(layers, o);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    benchmark(parse(argc, argv));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(exit_code(error.kind()));
  }
}
