// Tests that run with the kernels of both device classes, whatever the device.
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
  void SetUp() override { ops::force_kernel_class(GetParam()); }
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
inline std::string kernel_class_name(const ::testing::TestParamInfo<ops::KernelClass>& p) {
  return p.param == ops::KernelClass::gpu ? "gpu" : "cpu";
}

}  // namespace weft::testing
