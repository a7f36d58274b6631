#include "app/common/model_options.hpp"

#include "app/common/job_table.hpp"
#include "flotilla/session/device_choice.hpp"

namespace flotilla::app {

void add_model(options::Table& t, ModelOptions& o) {
  t.section("inference", "Looking at a model");
  t.add("inference.tokenizer", &o.tokenizer, "tokenizer.json of a Hugging Face model, or a SentencePiece .model",
        {.value = "FILE", .unset = "the one beside the weights; else bytes are tokens", .alias = "tokenizer"});
  t.add("inference.precision", &o.load.precision, "what matrices are multiplied in", precisions(), {.alias = "precision"});
  t.add("inference.tensor-parallel", &o.load.tensor_parallel, "tensor-parallel degree",
        {.minimum = 1, .maximum = 1 << 16, .alias = "tensor-parallel"});
  t.add("inference.pipeline", &o.load.pipeline, "pipeline stages",
        {.minimum = 0, .maximum = 1 << 16, .unset = "as few as fit the memory; one text: all ranks", .example = "2", .alias = "pipeline"});
  t.add("inference.threads", &o.load.threads, "compute threads per rank",
        {.minimum = 0, .maximum = 4096, .unset = "the rank's part of the CPUs", .example = "8", .alias = "threads"});
  t.add("inference.deadline", &o.load.deadline, "a message or collective without progress for this long is an error", {.above = 0});
  add_device_choice(t, o.device, o.tf32);
}

inference::ModelLoadOptions load_options(const comm::World& world, const ModelOptions& o) {
  auto load = o.load;
  load.device = session::choose_device(world, o.device, {.tf32 = o.tf32}, load.deadline);
  return load;
}

std::filesystem::path tokenizer_of(const ModelOptions& o, const inference::Subject& subject) {
  return o.tokenizer.empty() ? subject.tokenizer : std::filesystem::path{o.tokenizer};
}

}  // namespace flotilla::app
