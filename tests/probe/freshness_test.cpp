#include "freshness.hpp"

#include <gtest/gtest.h>

#include "flotilla/model/operations.hpp"

namespace {

using flotilla::Bytes;
using flotilla::Precision;
using flotilla::Rank;
using flotilla::Seconds;
using flotilla::cluster::Profile;
using flotilla::probe::Discovery;
using flotilla::probe::model_fingerprint;
using flotilla::probe::ProbeRequest;

constexpr Seconds day{86400};

struct Freshness : ::testing::Test {
  void SetUp() override {
    request.model = flotilla::model::built_in("gpt2-tiny");
    request.length = 16;
    here.devices = {{Rank{0}, "cpu:x:1t", "a", "", 0, 1}, {Rank{1}, "cpu:x:1t", "a", "", 1, 1}};
    here.software = "oneDNN 2.6";
    here.model_fingerprint = model_fingerprint(request.model, request.length);
    profile.devices = here.devices;
    profile.software = here.software;
    profile.model_fingerprint = here.model_fingerprint;
    profile.measured_at = "2026-11-20T12:00:00Z";
    profile.device_types = {{"cpu:x:1t", flotilla::cluster::DeviceKind::cpu, Bytes{1}, {1}, {1}, {1}, "probe"}};
    for (int degree : {1, 2})
      for (int o = 0; o < flotilla::model::operation_count; ++o)
        profile.operation_times.push_back({"cpu:x:1t", std::string{to_string(static_cast<flotilla::model::Operation>(o))}, degree, 1, 16,
                                           Precision::fp32, Seconds{1}, 0});
  }
  std::string why(const std::string& now = "2026-11-21T12:00:00Z") const { return why_not_fresh(profile, here, request, 7 * day, now); }
  ProbeRequest request;
  Discovery here;
  Profile profile;
};

TEST_F(Freshness, AProfileOfYesterdayStands) { EXPECT_EQ(why(), ""); }

TEST_F(Freshness, AgeIsLimited) {
  EXPECT_EQ(why("2026-11-27T12:00:00Z"), "");
  EXPECT_NE(why("2026-11-27T12:00:01Z").find("older than"), std::string::npos);
  EXPECT_NE(why("2026-11-20T11:00:00Z").find("yet to come"), std::string::npos);
  EXPECT_EQ(why("2026-11-20T11:59:30Z"), "") << "clocks of two nodes may differ a little";
  profile.measured_at = "yesterday";
  EXPECT_NE(why().find("does not say"), std::string::npos);
}

TEST_F(Freshness, OtherDevicesSoftwareOrModelMakeItStale) {
  here.devices[1].host = "b";
  EXPECT_NE(why(), "");
  here.devices[1].host = "a";
  here.software = "oneDNN 3.0";
  EXPECT_NE(why(), "");
  here.software = profile.software;
  here.model_fingerprint = model_fingerprint(request.model, 32);
  EXPECT_NE(why(), "");
}

TEST_F(Freshness, WhatWasNotMeasuredIsMissed) {
  request.precisions = {Precision::bf16};
  EXPECT_NE(why().find("bf16"), std::string::npos);
  request.precisions = {Precision::fp32};
  request.tensor_parallel = {1, 4};
  EXPECT_NE(why().find("degree 4"), std::string::npos);
  request.tensor_parallel = {2};
  EXPECT_EQ(why(), "");
  profile.operation_times.pop_back();
  EXPECT_NE(why().find("embedding_backward"), std::string::npos);
}

TEST(ModelFingerprint, TellsWhatChangesALayersTime) {
  const auto base = flotilla::model::built_in("gpt2-tiny");
  const std::string same = model_fingerprint(base, 64);
  const auto changed = [&](auto change) {
    auto other = base;
    change(other);
    return model_fingerprint(other, 64);
  };
  EXPECT_EQ(changed([](auto& m) {
              m.blocks += 3;
              m.name = "other";
              m.family = "opt";
              m.init_std = 1;
            }),
            same)
      << "layers are alike";
  EXPECT_NE(model_fingerprint(base, 65), same);
  EXPECT_NE(changed([](auto& m) { m.hidden *= 2; }), same);
  EXPECT_NE(changed([](auto& m) { m.heads *= 2; }), same);
  EXPECT_NE(changed([](auto& m) { m.feed_forward += 1; }), same);
  EXPECT_NE(changed([](auto& m) { m.vocabulary += 1; }), same);
  EXPECT_NE(changed([](auto& m) { m.embedding_width += 1; }), same);
  EXPECT_NE(changed([](auto& m) { m.activation = flotilla::model::Activation::relu; }), same);
  EXPECT_NE(changed([](auto& m) { m.norm = flotilla::model::NormPlacement::post; }), same);
  EXPECT_NE(changed([](auto& m) { m.final_norm = !m.final_norm; }), same);
  EXPECT_NE(changed([](auto& m) { m.dropout = m.dropout > 0 ? 0 : 0.1; }), same);
  EXPECT_NE(changed([](auto& m) { m.attention_dropout = m.attention_dropout > 0 ? 0 : 0.1; }), same);
}

}  // namespace
