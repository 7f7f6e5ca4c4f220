// The plans by subgroup matrices that the table can come to on the test's device.
#pragma once

#include <vector>

#include "ops/launch.h"
#include "ops/matmul.h"
#include "ops/matmul_codegen.h"
#include "unit/test_device.h"

namespace weft::testing {

inline std::vector<ops::MatmulPlan> matrix_plans(DType dtype, const ops::MatrixUnit& unit) {
  std::vector<ops::MatmulPlan> plans;
  for (const ops::MatmulPlan& plan : ops::all_plans(ops::DeviceClass::gpu, test_device().limits(), dtype,
                                                    ops::fixed_subgroup(test_device().features()), unit)) {
    if (plan.kind == ops::MatmulKind::matrix) plans.push_back(plan);
  }
  return plans;
}

}  // namespace weft::testing
