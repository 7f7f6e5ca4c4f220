#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/catalog.h"
#include "ops/launch.h"
#include "ops/matmul_codegen.h"
#include "ops/matmul_run.h"

namespace weft::ops {
namespace {

constexpr OpEntry kOps[] = {
    {"matmul", "f32, f16, i32, u32, bool", "activation(a @ b + bias) + residual",
     "numpy.matmul; torch.matmul, nn.functional.linear; ONNX MatMul, with Gemm's C as bias",
     "at most 2^31 along each axis; f16 needs the device's feature",
     "integers exact; floats: k 2^-24 sum of |a b|, and 2^-11 relative more for f16 results"},
    {"gemm_into", "f32, f16 (also into f32), i32, u32",
     "c = activation(alpha op(a) @ op(b) + beta c + bias) + residual",
     "BLAS sgemm, strided and batched; torch.addmm, baddbmm; ONNX Gemm", "as matmul; c is of a buffer of its own",
     "as matmul, with (k + 2) for k"},
    {"matmul_int8", "u32 words of four i8 or u8, into i32", "a @ b^T over the packed axis",
     "torch._int_mm; ONNX MatMulInteger with zero points 0", "k is a multiple of 4", "exact, wrapping"},
};

/// The dtypes of operands and results that kernels are made for.
constexpr std::array kTypes{std::pair{DType::f32, DType::f32}, std::pair{DType::f16, DType::f16},
                            std::pair{DType::f16, DType::f32}, std::pair{DType::i32, DType::i32},
                            std::pair{DType::u32, DType::i32}};

void visit_kernels(const Device& device, const KernelVisitor& visit) {
  std::set<std::string> seen;
  const auto add = [&](const MatmulSpec& wish) {
    const MatmulSpec spec = settle(wish);
    const std::string key = matmul_key(spec);
    if (seen.insert(key).second) visit(key, matmul_options(spec));
  };
  // Every wish that a product can have; settle() says what becomes of it.
  const auto add_layouts = [&](MatmulSpec spec) {
    for (std::uint32_t bits = 0; bits < 256; ++bits) {
      const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
      spec.a_transposed = bit(0);
      spec.b_transposed = bit(1);
      if (spec.b_transposed && spec.plan.quads > 1) continue;  // choose() has these for rows of b only
      spec.a_vec4 = bit(2);
      spec.b_vec4 = bit(3);
      spec.c_vec4 = bit(4);
      spec.full = bit(5);
      spec.batch_axes = bit(6) ? 3 : 1;
      spec.wide = bit(7);
      add(spec);
    }
  };
  for (DType in : {DType::f32, DType::f16, DType::i32}) {
    if (in == DType::f16 && !device.features().f16) continue;
    visit(matmul_pack_key(in), matmul_pack_options(in));
  }
  for (const auto& [in, out] : kTypes) {
    if ((in == DType::f16 || out == DType::f16) && !device.features().f16) continue;
    for (DeviceClass of : {DeviceClass::gpu, DeviceClass::cpu}) {
      const bool packed = in == DType::u32;
      for (std::uint32_t signs = 0; signs < (packed ? 4u : 1u); ++signs) {
        MatmulSpec spec;
        spec.in = in;
        spec.out = out;
        spec.a_signed = !packed || (signs & 1) != 0;
        spec.b_signed = !packed || (signs & 2) != 0;
        const MatrixUnit unit = usable_unit(device, in, spec.a_signed, spec.b_signed);
        for (const MatmulPlan& plan : all_plans(of, device.limits(), in, fixed_subgroup(device.features()), unit)) {
          if (packed && plan.kind == MatmulKind::sum) continue;
          spec.plan = plan;
          if (is_cpu(device)) spec.plan.unroll = 1;  // as run_product() does
          if (!packed) {
            add_layouts(spec);
            continue;
          }
          for (Int8 int8 : {Int8::dot, Int8::unpacked}) {
            if (int8 == Int8::dot && !has_packed_dot(device)) continue;
            spec.int8 = int8;
            add_layouts(spec);
          }
        }
      }
    }
  }
}

}  // namespace

const OpFamily& matmul_family() {
  static const OpFamily family{"Products", kOps, visit_kernels};
  return family;
}

}  // namespace weft::ops
