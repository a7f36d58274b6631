#include "rank_resources.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"

namespace {

using flotilla::Bytes;
using flotilla::probe::cpu_type_name;
using flotilla::probe::facts_from_text;
using flotilla::probe::RankResources;
using flotilla::probe::to_text;

RankResources some() {
  return {"AMD EPYC 9654 96-Core Processor", {{0, 1, 5, 191}, 2.5}, 192, Bytes{1 << 25}, Bytes{123456789012}, Bytes{77}, 3, "us-east 1a",
          "oneDNN 2.6; Open MPI v4.1.4"};
}

TEST(RankResources, TravelAsText) {
  EXPECT_EQ(facts_from_text(to_text(some())), some());
  RankResources plain = some();
  plain.zone = "";
  plain.cpus.cpu_limit = 0.1 + 0.2;
  EXPECT_EQ(facts_from_text(to_text(plain)), plain);
}

TEST(RankResources, OfAGpuTravelToo) {
  RankResources on_gpu = some();
  on_gpu.gpu_name = "NVIDIA A100-SXM4-80GB MIG 1g.10gb";
  on_gpu.gpu_uuid = "MIG-0123";
  on_gpu.gpu_memory = Bytes{10} * (1 << 30);
  on_gpu.gpu_tf32 = on_gpu.nccl = on_gpu.device_mpi = true;
  EXPECT_EQ(facts_from_text(to_text(on_gpu)), on_gpu);
}

TEST(GpuTypeName, IsTheCataloguesWhereThatKnowsIt) {
  EXPECT_EQ(flotilla::probe::gpu_type_name("NVIDIA H100 80GB HBM3", 1), "H100");
  EXPECT_EQ(flotilla::probe::gpu_type_name("NVIDIA H100 80GB HBM3", 3), "H100:1/3");
  EXPECT_EQ(flotilla::probe::gpu_type_name("NVIDIA H100 80GB HBM3", 1, true), "H100+tf32");
  EXPECT_EQ(flotilla::probe::gpu_type_name("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1), "NVIDIA A100-SXM4-80GB MIG 1g.10gb");
}

TEST(RankResources, ANewerVersionsFactsAreSkipped) { EXPECT_EQ(facts_from_text("weather fine\n" + to_text(some())), some()); }

TEST(RankResources, LineBreaksCannotForgeFacts) {
  RankResources forged = some();
  forged.zone = "a\nthreads 64";
  EXPECT_EQ(facts_from_text(to_text(forged)).threads, 3);
}

TEST(RankResources, NonsenseIsRefused) {
  EXPECT_THROW(facts_from_text(""), flotilla::Error);
  EXPECT_THROW(facts_from_text("cpus 1\nmemory_available 5"), flotilla::Error);
}

TEST(CpuTypeName, LeavesOutWhatEveryModelRepeats) {
  EXPECT_EQ(cpu_type_name("AMD EPYC 9654 96-Core Processor", 2), "cpu:AMD EPYC 9654:2t");
  EXPECT_EQ(cpu_type_name("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", 20), "cpu:Intel Xeon Gold 6148:20t");
  EXPECT_EQ(cpu_type_name("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", 6), "cpu:Intel Core i7-9750H:6t");
  EXPECT_EQ(cpu_type_name("aarch64", 1), "cpu:aarch64:1t");
  EXPECT_EQ(cpu_type_name("", 1), "cpu:unknown:1t");
}

}  // namespace
