// Tests that run with the kernels of both device classes, and of each tier, whatever the device.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/rows.h"
#include "unit/test_device.h"
#include "weft/tensor.h"

namespace weft::testing {

class KernelClassTest : public ::testing::TestWithParam<ops::KernelClass> {
 protected:
  void SetUp() override {
    if (GetParam() == ops::KernelClass::gpu_subgroups && !test_device().features().subgroups) {
      GTEST_SKIP() << "the device has no subgroups";
    }
    ops::force_kernel_class(GetParam());
  }
  void TearDown() override { ops::force_kernel_class(ops::KernelClass::automatic); }

  static Tensor floats(const std::vector<float>& values, const Shape& shape) {
    return test_device().upload<float>(values, shape);
  }
  static Tensor floats(const std::vector<float>& values) {
    return floats(values, {static_cast<std::int64_t>(values.size())});
  }
};

inline auto both_kernel_classes() {
  return ::testing::Values(ops::KernelClass::gpu, ops::KernelClass::cpu);
}
/// For ops that have kernels with subgroup operations.
inline auto all_kernel_classes() {
  return ::testing::Values(ops::KernelClass::gpu, ops::KernelClass::gpu_subgroups, ops::KernelClass::cpu);
}
inline std::string kernel_class_name(const ::testing::TestParamInfo<ops::KernelClass>& p) {
  switch (p.param) {
    case ops::KernelClass::gpu: return "gpu";
    case ops::KernelClass::gpu_subgroups: return "gpu_subgroups";
    default: return "cpu";
  }
}

}  // namespace weft::testing
