#include "ops/subgroups.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ops {
namespace {

constexpr std::uint32_t kSmallestSubgroup = 4;  ///< that WebGPU has
constexpr std::uint32_t kUnrolled = 16;         ///< up to so many tops are joined without a loop

std::string joined(std::string_view join, std::string_view value, std::uint32_t begin, std::uint32_t end) {
  if (end - begin == 1) return fmt::format(fmt::runtime(value), begin);
  const std::uint32_t middle = begin + (end - begin) / 2;
  return fmt::format("{}({}, {})", join, joined(join, value, begin, middle), joined(join, value, middle, end));
}

}  // namespace

const std::string_view kOrderText = R"(
fn order_of(v: f32) -> u32 {
  let bits = bitcast<u32>(v);
  let order = bits ^ (bitcast<u32>(bitcast<i32>(bits) >> 31u) | 0x80000000u);
  return select(order, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
}
fn in_order(k: u32) -> f32 { return bitcast<f32>(k ^ select(0xffffffffu, 0x80000000u, k >= 0x80000000u)); }
fn low_order_of(v: f32) -> u32 {
  let order = order_of(v);
  return select(~order, order, order == 0xffffffffu);
}
fn in_low_order(k: u32) -> f32 { return in_order(~k); }
)";

std::uint32_t most_subgroups(const Device& device, std::uint32_t threads) {
  return std::max(threads / std::max(device.features().subgroup_min_size, kSmallestSubgroup), 1U);
}

std::string joined_text(std::string_view join, std::string_view value, std::uint32_t count) {
  return joined(join, value, 0, count);
}

std::string tops_text(std::string_view name, std::string_view type, std::string_view join, std::string_view none,
                      std::uint32_t most) {
  if (most > kUnrolled) {
    return fmt::format(R"(
fn tops_of_{0}(n: u32) -> {1} {{
  var all = {0}[0];
  for (var i = 1u; i < n; i++) {{
    all = {2}(all, {0}[i]);
  }}
  return all;
}}
)",
                       name, type, join);
  }
  return fmt::format(R"(
fn top_of_{0}(i: u32, n: u32) -> {1} {{
  if (i < n) {{
    return {0}[i];
  }}
  return {3};
}}
fn tops_of_{0}(n: u32) -> {1} {{ return {2}; }}
)",
                     name, type, joined_text(join, fmt::format("top_of_{}({{}}u, n)", name), most), none);
}

}  // namespace weft::ops
