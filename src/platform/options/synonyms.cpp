#include <algorithm>
#include <array>
#include <utility>

#include "option.hpp"

namespace flotilla::options {
namespace {

using Synonym = std::pair<std::string_view, std::string_view>;

/// What other trainers call our options, without dashes, underscores and case: the nearest spelling would be another option's. Of several
/// for one name the first counts that the command has.
constexpr auto synonyms = std::to_array<Synonym>({{"lr", "training.learning-rate"},
                                                  {"maxlr", "training.learning-rate"},
                                                  {"peaklr", "training.learning-rate"},
                                                  {"minlr", "training.minimum-learning-rate"},
                                                  {"batchsize", "training.global-batch"},
                                                  {"globalbatchsize", "training.global-batch"},
                                                  {"gbs", "training.global-batch"},
                                                  {"trainbatchsize", "training.global-batch"},
                                                  {"microbatchsize", "plan.microbatch"},
                                                  {"mbs", "plan.microbatch"},
                                                  {"perdevicetrainbatchsize", "plan.microbatch"},
                                                  {"bf16", "training.precision"},
                                                  {"fp16", "training.precision"},
                                                  {"fp32", "training.precision"},
                                                  {"amp", "training.precision"},
                                                  {"tf32", "device.tf32"},
                                                  {"allowtf32", "device.tf32"},
                                                  {"dtype", "training.precision"},
                                                  {"mixedprecision", "training.precision"},
                                                  {"maxcost", "limit.run-cost"},
                                                  {"budget", "limit.run-cost"},
                                                  {"maxbudget", "limit.run-cost"},
                                                  {"costlimit", "limit.run-cost"},
                                                  {"maxtime", "limit.run-time"},
                                                  {"maxtime", "run.time-limit"},
                                                  {"deadline", "limit.run-time"},
                                                  {"deadline", "run.time-limit"},
                                                  {"walltime", "limit.run-time"},
                                                  {"walltime", "run.time-limit"},
                                                  {"maxduration", "limit.run-time"},
                                                  {"maxduration", "run.time-limit"},
                                                  {"totaltokens", "training.tokens"},
                                                  {"maxtokens", "training.tokens"},
                                                  {"trainsamples", "training.steps"},
                                                  {"maxsteps", "training.steps"},
                                                  {"trainiters", "training.steps"},
                                                  {"iterations", "training.steps"},
                                                  {"maxiters", "training.steps"},
                                                  {"seqlen", "training.length"},
                                                  {"seqlength", "training.length"},
                                                  {"sequencelength", "training.length"},
                                                  {"blocksize", "training.length"},
                                                  {"contextlength", "training.length"},
                                                  {"maxseqlen", "training.length"},
                                                  {"warmup", "training.warmup-steps"},
                                                  {"warmupiters", "training.warmup-steps"},
                                                  {"lrwarmupiters", "training.warmup-steps"},
                                                  {"lrdecayiters", "training.decay-steps"},
                                                  {"lrdecaysteps", "training.decay-steps"},
                                                  {"decayiters", "training.decay-steps"},
                                                  {"lrschedulertype", "training.learning-rate-schedule"},
                                                  {"lrdecaystyle", "training.learning-rate-schedule"},
                                                  {"lrwsddecayiters", "training.cooldown-steps"},
                                                  {"wd", "training.weight-decay"},
                                                  {"adambeta1", "training.beta1"},
                                                  {"adambeta2", "training.beta2"},
                                                  {"eps", "training.epsilon"},
                                                  {"adameps", "training.epsilon"},
                                                  {"clipgrad", "training.clip"},
                                                  {"gradclip", "training.clip"},
                                                  {"maxgradnorm", "training.clip"},
                                                  {"gradientclipping", "training.clip"},
                                                  {"evalinterval", "training.evaluate-every"},
                                                  {"evalsteps", "training.evaluate-every"},
                                                  {"evaliters", "training.evaluate-sequences"},
                                                  {"tensormodelparallelsize", "plan.tensor"},
                                                  {"tensorparallelsize", "plan.tensor"},
                                                  {"tp", "plan.tensor"},
                                                  {"pipelinemodelparallelsize", "plan.pipeline"},
                                                  {"pipelineparallelsize", "plan.pipeline"},
                                                  {"pp", "plan.pipeline"},
                                                  {"dataparallelsize", "plan.data"},
                                                  {"dp", "plan.data"},
                                                  {"sequenceparallel", "plan.sequence-parallel"},
                                                  {"usedistributedoptimizer", "plan.shard-optimizer"},
                                                  {"gradientcheckpointing", "plan.recompute"},
                                                  {"recomputeactivations", "plan.recompute"},
                                                  {"saveinterval", "checkpoint.every"},
                                                  {"savesteps", "checkpoint.every"},
                                                  {"outputdir", "run.directory"},
                                                  {"loginterval", "run.log-every"},
                                                  {"datapath", "data.train"},
                                                  {"dataset", "data.train"},
                                                  {"traindata", "data.train"},
                                                  {"tokenizer", "data.format"},
                                                  {"tokenizertype", "data.format"},
                                                  {"gradientaccumulationsteps", "plan.microbatch"},
                                                  {"epochs", "training.steps"},
                                                  {"numtrainepochs", "training.steps"},
                                                  {"numlayers", "model.name"},
                                                  {"nlayer", "model.name"},
                                                  {"hiddensize", "model.name"},
                                                  {"nembd", "model.name"},
                                                  {"numattentionheads", "model.name"},
                                                  {"nhead", "model.name"},
                                                  {"vocabsize", "model.name"},
                                                  {"zerostage", "plan.shard-optimizer"},
                                                  {"zero", "plan.shard-optimizer"},
                                                  {"activationcheckpointing", "plan.recompute"},
                                                  {"virtualpipelinemodelparallelsize", "plan.chunks"},
                                                  {"save", "run.directory"},
                                                  {"load", "run.directory"},
                                                  {"resume", "run.directory"},
                                                  {"savedir", "run.directory"},
                                                  {"checkpointdir", "run.directory"},
                                                  {"hiddendropout", "model.dropout"},
                                                  {"numworkers", "run.threads"},
                                                  {"ompnumthreads", "run.threads"}});

std::string bare(std::string_view name) {
  std::string out;
  for (const char c : name.substr(name.rfind('.') + 1))
    if (c != '-' && c != '_') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace

std::string detail::called_elsewhere(std::string_view name, const Words& known) {
  const auto only = [&](const auto& is_ours) {
    return std::ranges::count_if(known, is_ours) == 1 ? *std::ranges::find_if(known, is_ours) : std::string{};
  };
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  const auto key = [](std::string_view option) { return option.substr(option.rfind('.') + 1); };
  const auto spelled = [&](const std::string& option) { return option.find('.') != option.npos && key(option) == key(name); };
  const auto alike = [&](const std::string& option) { return option.find('.') != option.npos && bare(option) == bare(name); };
  if (auto ours = only(spelled); !ours.empty()) return ours;  // without its section, or in another
  if (auto ours = only(alike); !ours.empty()) return ours;
  const auto found = std::ranges::find_if(synonyms, [&](const Synonym& synonym) {
    return synonym.first == bare(name) && std::ranges::find(known, synonym.second) != known.end();
  });
  return found == synonyms.end() ? "" : std::string{found->second};
}

}  // namespace flotilla::options
