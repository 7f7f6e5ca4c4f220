#include "backend/narrow.h"

#include <fmt/format.h>

#include <string>

#include "ops/launch.h"

namespace weft::backend {
namespace {

// On the bits, since a device may flush denormals and round a conversion as it likes.
constexpr std::string_view kRoundBf16 = R"(
fn narrow(u: u32) -> u32 {
  if ((u & 0x7fffffffu) > 0x7f800000u) { return u | 0x00400000u; }
  return (u + 0x7fffu + ((u >> 16u) & 1u)) & 0xffff0000u;
}
)";
constexpr std::string_view kRoundF16 = R"(
fn narrow(u: u32) -> u32 {
  let sign = u & 0x80000000u;
  let a = u & 0x7fffffffu;
  if (a > 0x7f800000u) { return u | 0x00400000u; }
  if (a >= 0x477ff000u) { return sign | 0x7f800000u; }  // 65520 and up
  if (a >= 0x38800000u) { return sign | ((a + 0xfffu + ((a >> 13u) & 1u)) & 0xffffe000u); }
  // Below 2^-14 f16 counts in steps of 2^-24: x = m 2^(e - 150) becomes q = round(m 2^(e - 126)) steps.
  let drop = 126u - (a >> 23u);
  if (drop > 25u) { return sign; }
  let m = (a & 0x007fffffu) | 0x00800000u;
  let half = 1u << (drop - 1u);
  let q = (m + half - 1u + ((m >> drop) & 1u)) >> drop;
  if (q == 0u) { return sign; }
  return sign | bitcast<u32>(f32(q) * 0x1p-24f);
}
)";
constexpr std::string_view kRound = R"(struct Params { count: u32, offset: u32 }
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.count) { y[i] = narrow(x[params.offset + i]); }
}
)";

constexpr std::string_view kWidenBf16 = "fn widen(h: u32) -> u32 { return h << 16u; }\n";
constexpr std::string_view kWidenF16 = R"(
fn widen(h: u32) -> u32 {
  let sign = (h & 0x8000u) << 16u;
  let a = h & 0x7fffu;
  if (a >= 0x7c00u) { return sign | 0x7f800000u | ((a & 0x3ffu) << 13u); }
  if (a >= 0x0400u) { return sign | ((a << 13u) + 0x38000000u); }
  if (a == 0u) { return sign; }
  return sign | bitcast<u32>(f32(a) * 0x1p-24f);
}
)";
constexpr std::string_view kUnpack = R"(struct Params { count: u32, offset: u32 }
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.count) { y[i] = widen((x[params.offset + i / 2u] >> (16u * (i & 1u))) & 0xffffu); }
}
)";

Tensor convert(const Tensor& in, std::int64_t count, std::string_view key, std::string_view convert_text,
               std::string_view main_text) {
  Device device = in.device();
  const Tensor out = device.empty(Shape{count}, DType::f32);
  if (count == 0) return out;
  const ops::Window window = ops::window(in, "gemm_mixed_precision");
  const struct {
    std::uint32_t count, offset;
  } params{static_cast<std::uint32_t>(count), window.offset};
  const Kernel kernel = dispatch::library_kernel(ops::state_of(device), std::string(key), [&] {
    KernelOptions options;
    options.source = fmt::format("{}{}", main_text, convert_text);
    options.label = key;
    return options;
  });
  ops::launch(device, kernel, {window.range, BindingRange(out.buffer())}, params,
              kernel.grid(grid_for(static_cast<std::uint64_t>(count))));
  return out;
}

}  // namespace

Tensor rounded(const Tensor& x, Precision16 format) {
  return format == Precision16::half ? convert(x, x.size(), "round_to_f16", kRoundF16, kRound)
                                     : convert(x, x.size(), "round_to_bf16", kRoundBf16, kRound);
}

Tensor unpacked(const Tensor& words, std::int64_t count, Precision16 format) {
  return format == Precision16::half ? convert(words, count, "unpack_f16", kWidenF16, kUnpack)
                                     : convert(words, count, "unpack_bf16", kWidenBf16, kUnpack);
}

}  // namespace weft::backend
