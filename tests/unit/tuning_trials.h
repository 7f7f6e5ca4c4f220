// Ops by each of the plans that they may be tuned to.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/state.h"
#include "dispatch/tuning.h"
#include "unit/test_device.h"
#include "weft/tensor.h"

namespace weft::testing {

inline dispatch::TuningTable& table() {
  return test_device().state()->tuning;
}

inline std::vector<float> values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>((seed >> 20) % 15u) - 7);
  }
  return out;
}

inline Tensor upload(const std::vector<float>& v, const Shape& shape) {
  return test_device().upload(std::span<const float>(v), shape);
}

/// What the op's look-ups are asked with.
inline std::vector<dispatch::TuningTrial::Asked> asked_by(const std::function<Tensor()>& run, std::string_view op) {
  const dispatch::TuningTrial trial(table());
  run();
  auto asked = trial.asked();
  std::erase_if(asked, [&](const auto& a) { return !a.key.starts_with(op); });
  return asked;
}

/// Calls `check` while look-ups of each class that `run` asks for get each candidate in turn.
inline void with_every_candidate(const std::function<Tensor()>& run, std::string_view op,
                                 const std::function<void()>& check) {
  const auto asked = asked_by(run, op);
  ASSERT_FALSE(asked.empty());
  for (const auto& a : asked) {
    EXPECT_GE(a.candidates.size(), 2u) << a.key;
    EXPECT_LE(a.candidates.size(), 100u) << a.key;
    for (const dispatch::TuningPlan& plan : a.candidates) {
      SCOPED_TRACE(a.key + " = " + ::testing::PrintToString(plan.values));
      const dispatch::TuningTrial trial(table(), a.key, plan);
      check();
      EXPECT_GE(trial.uses(), 1u);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

inline void check_every_candidate(const std::function<Tensor()>& run, std::string_view op,
                                  const std::vector<float>& want) {
  with_every_candidate(run, op, [&] { ASSERT_EQ(run().to_host<float>(), want); });
}

}  // namespace weft::testing
