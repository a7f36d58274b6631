#include "flotilla/model/tensors.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace flotilla::model::tensors_test {
namespace {

TEST(Tensors, CountsAreThePublishedModels) {
  const std::map<std::string, std::int64_t> published{
      {"gpt2", 124439808},          {"gpt2-medium", 354823168},   {"gpt2-large", 774030080},    {"gpt2-xl", 1557611200},
      {"opt-125m", 125239296},      {"opt-350m", 331196416},      {"opt-1.3b", 1315758080},     {"opt-2.7b", 2651596800},
      {"opt-6.7b", 6658473984},     {"opt-13b", 12853473280},     {"gpt-neo-125m", 125198592},  {"gpt-neo-1.3b", 1315575808},
      {"gpt-neo-2.7b", 2651307520}, {"llama-2-7b", 6738415616},   {"llama-2-13b", 13015864320}, {"llama-2-70b", 68976648192},
      {"llama-3-8b", 8030261248},   {"llama-3-70b", 70553706496}, {"llama-3.1-8b", 8030261248}, {"llama-3.2-1b", 1235814400},
      {"llama-3.2-3b", 3212749824}, {"qwen3-0.6b", 596049920},    {"qwen3-1.7b", 1720574976},   {"qwen3-4b", 4022468096},
      {"qwen3-8b", 8190735360},     {"qwen3-14b", 14768307200},   {"qwen3-32b", 32762123264},   {"pythia-70m", 70426624},
      {"pythia-160m", 162322944},   {"pythia-410m", 405334016},   {"pythia-1b", 1011781632},    {"pythia-1.4b", 1414647808},
      {"pythia-2.8b", 2775208960},  {"pythia-6.9b", 6857302016},  {"pythia-12b", 11846072320},  {"gpt-neox-20b", 20554567680},
      {"bloom-560m", 559214592},    {"bloom-1b1", 1065314304},    {"bloom-1b7", 1722408960},    {"bloom-3b", 3002557440},
      {"bloom-7b1", 7069016064},    {"bloom-176b", 176247271424}, {"gemma-2-2b", 2614341888},   {"gemma-2-9b", 9241705984},
      {"gemma-2-27b", 27227128320}, {"gemma-3-270m", 268098176},  {"gemma-3-1b", 999885952}};
  for (const auto& [name, count] : published) EXPECT_EQ(parameter_count(built_in(name)), count) << name;
}

TEST(Tensors, NamesAreUniqueAndLayersInOrder) {
  for (const std::string& name : built_in_names()) {
    const Config c = built_in(name);
    std::set<std::string> names;
    int layer = 0;
    for (const Tensor& t : tensors(c)) {
      EXPECT_TRUE(names.insert(t.name).second) << t.name;
      EXPECT_GE(t.layer, layer);
      layer = t.layer;
      EXPECT_LT(t.layer, c.layers());
      EXPECT_EQ(t.decays, t.shape.size() >= 2) << t.name;
    }
  }
}

TEST(Tensors, CutsFallOnLogicalUnits) {
  const Config c = built_in("opt-post-tiny");
  std::map<std::string, Tensor> by_name;
  for (const Tensor& t : tensors(c)) by_name[t.name] = t;
  EXPECT_EQ(by_name.at("block.1.attention.qkv.weight").units(), c.heads);
  EXPECT_EQ(by_name.at("block.1.attention.qkv.bias").units(), c.heads);
  EXPECT_EQ(by_name.at("block.1.attention.out.weight").units(), c.heads);
  EXPECT_EQ(by_name.at("block.1.feed_forward.up.weight").units(), c.feed_forward);
  EXPECT_EQ(by_name.at("block.1.feed_forward.down.weight").units(), c.feed_forward);
  EXPECT_EQ(by_name.at("embedding.word").units(), c.vocabulary);
  EXPECT_EQ(by_name.at("embedding.word").tied_layer, c.blocks + 1);
  EXPECT_EQ(by_name.at("embedding.position").shape, (std::vector<std::int64_t>{258, 64}));
  EXPECT_EQ(by_name.at("embedding.project_in").shape, (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(by_name.at("head.project_out").shape, (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(by_name.at("block.0.norm1.weight").init, Init::ones);
  EXPECT_FALSE(by_name.contains("head.norm.weight"));
}

/// Every query head's rows of qkv stand with those of its key and value, and out's columns go with them.
TEST(Tensors, SharedKeysAreCutWithTheirQueries) {
  Config c = built_in("llama-tiny");
  std::map<std::string, Tensor> by_name;
  for (const Tensor& t : tensors(c)) by_name[t.name] = t;
  const Tensor &qkv = by_name.at("block.0.attention.qkv.weight"), &out = by_name.at("block.0.attention.out.weight");
  EXPECT_EQ(qkv.shape, (std::vector<std::int64_t>{(6 + 2 * 3) * 16, 96}));
  EXPECT_EQ(qkv.unit, 4 * 16);
  EXPECT_EQ(qkv.units(), 3);
  EXPECT_EQ(out.unit, 2 * 16);
  EXPECT_EQ(out.units(), 3);
  EXPECT_EQ(by_name.at("block.0.feed_forward.up.weight").shape, (std::vector<std::int64_t>{2 * 256, 96}));
  EXPECT_EQ(by_name.at("block.0.feed_forward.up.weight").units(), 256);
  EXPECT_EQ(largest_tensor_parallel(c), 3);
  EXPECT_EQ(limit_of_tensor_parallel(c), "the number of key and value heads");
}

TEST(Tensors, WhatAFamilyLacksIsNotThere) {
  std::set<std::string> llama, neo, tied;
  for (const Tensor& t : tensors(built_in("llama-tiny"))) llama.insert(t.name);
  for (const Tensor& t : tensors(built_in("gpt-neo-tiny"))) neo.insert(t.name);
  for (const Tensor& t : tensors(built_in("llama-3.2-1b"))) tied.insert(t.name);
  for (const char* absent : {"embedding.position", "block.0.norm1.bias", "block.0.attention.qkv.bias", "block.0.attention.out.bias",
                             "block.0.feed_forward.up.bias", "block.0.feed_forward.down.bias", "head.norm.bias"})
    EXPECT_FALSE(llama.contains(absent)) << absent;
  EXPECT_TRUE(llama.contains("head.word"));
  EXPECT_FALSE(tied.contains("head.word"));
  EXPECT_FALSE(neo.contains("block.0.attention.qkv.bias"));
  for (const char* there : {"embedding.position", "block.0.attention.out.bias", "block.0.feed_forward.up.bias", "head.norm.bias"})
    EXPECT_TRUE(neo.contains(there)) << there;
}

/// Each head's query, key and value stand together, and the norms of heads are everybody's.
TEST(Tensors, WhatNewerFamiliesAdd) {
  std::map<std::string, Tensor> qwen3, neox, bloom;
  for (const Tensor& t : tensors(built_in("qwen3-tiny"))) qwen3[t.name] = t;
  for (const Tensor& t : tensors(built_in("pythia-tiny"))) neox[t.name] = t;
  for (const Tensor& t : tensors(built_in("bloom-tiny"))) bloom[t.name] = t;
  EXPECT_EQ(qwen3.at("block.0.attention.qkv.weight").shape, (std::vector<std::int64_t>{(6 + 2 * 3) * 24, 96}));
  EXPECT_EQ(qwen3.at("block.0.attention.out.weight").shape, (std::vector<std::int64_t>{96, 6 * 24}));
  EXPECT_EQ(qwen3.at("block.0.attention.out.weight").units(), 3);
  for (const char* norm : {"block.0.attention.query_norm.weight", "block.1.attention.key_norm.weight"}) {
    EXPECT_EQ(qwen3.at(norm).shape, std::vector<std::int64_t>{24});
    EXPECT_EQ(qwen3.at(norm).axis, Axis::none);
    EXPECT_TRUE(qwen3.at(norm).summed);
  }
  EXPECT_FALSE(qwen3.at("block.0.norm1.weight").summed);
  for (const auto* family : {&neox, &bloom}) {
    EXPECT_EQ(family->at("block.0.attention.qkv.weight").unit, 3 * 16);
    EXPECT_EQ(family->at("block.0.attention.qkv.weight").fused, 1);
    EXPECT_EQ(family->at("block.0.attention.qkv.bias").units(), 4);
    EXPECT_FALSE(family->contains("embedding.position"));
  }
  EXPECT_TRUE(neox.contains("head.word"));
  EXPECT_TRUE(bloom.contains("embedding.norm.bias"));
}

/// Norms behind sub-layers belong to everybody; a weight to which 1 is added begins at zero.
TEST(Tensors, WhatGemmaAdds) {
  std::map<std::string, Tensor> gemma;
  for (const Tensor& t : tensors(built_in("gemma3-tiny"))) gemma[t.name] = t;
  for (const char* norm : {"block.0.attention.output_norm.weight", "block.1.feed_forward.output_norm.weight", "block.0.norm1.weight",
                           "block.0.norm2.weight", "head.norm.weight"}) {
    EXPECT_EQ(gemma.at(norm).shape, std::vector<std::int64_t>{96});
    EXPECT_EQ(gemma.at(norm).axis, Axis::none);
    EXPECT_EQ(gemma.at(norm).init, Init::zeros) << norm;
    EXPECT_FALSE(gemma.at(norm).summed);
  }
  EXPECT_EQ(gemma.at("block.0.attention.query_norm.weight").init, Init::zeros);
  EXPECT_EQ(gemma.at("block.0.feed_forward.up.weight").fused, 2);
  EXPECT_FALSE(gemma.contains("head.word"));
}

TEST(Tensors, OnlyGpt2ScalesTheOutputMatrices) {
  for (const char* name : {"gpt2-tiny", "opt-tiny"}) {
    int scaled = 0;
    for (const Tensor& t : tensors(built_in(name))) scaled += t.init == Init::normal_residual;
    EXPECT_EQ(scaled, std::string{name} == "gpt2-tiny" ? 4 : 0);
  }
}

TEST(Share, CoversWithoutGapAndIsBalanced) {
  for (int units : {1, 6, 7, 50257})
    for (int degree = 1; degree <= std::min(units, 8); ++degree) {
      std::int64_t next = 0;
      for (int i = 0; i < degree; ++i) {
        const UnitRange r = share(units, degree, i);
        EXPECT_EQ(r.first, next);
        EXPECT_GE(r.count(), units / degree);
        EXPECT_LE(r.count(), units / degree + 1);
        next = r.last;
      }
      EXPECT_EQ(next, units);
    }
}

}  // namespace
}  // namespace flotilla::model::tensors_test
