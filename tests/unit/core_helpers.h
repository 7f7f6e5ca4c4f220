// What the tests of the core share: byte views, typed transfers, a few small kernels, and checks of errors.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "weft/device.h"
#include "weft/error.h"
#include "weft/kernel.h"
#include "weft/stream.h"

namespace weft::testing {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
Buffer upload_vector(Device& device, const std::vector<T>& values, Usage usage = kDefaultUsage) {
  return device.upload_bytes(bytes_of(values), usage);
}

/// Elements [first, first + count) of the buffer.
template <class T>
std::vector<T> read_vector(Device& device, const Buffer& buffer, std::size_t count, std::size_t first = 0) {
  std::vector<T> out(count);
  device.read(buffer, first * sizeof(T), std::as_writable_bytes(std::span(out)));
  return out;
}

/// Runs `call` and returns the Error that it throws; a call that does not throw fails the test.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::internal, "no error was thrown", "throw one");
}

/// Code, and parts of the text; every message ends in its remedy (A50).
inline void expect_error(const Error& e, ErrorCode code, std::initializer_list<std::string_view> parts = {}) {
  EXPECT_EQ(e.code(), code) << e.what();
  const std::string what = e.what();
  EXPECT_NE(what.find("Fix: "), std::string::npos) << what;
  EXPECT_FALSE(e.fix().empty());
  for (std::string_view part : parts) EXPECT_NE(what.find(part), std::string::npos) << part << " not in: " << what;
}

/// Runs `work(index)` on `count` threads and waits for all of them. The first exception comes out as a test failure.
template <class Work>
void run_threads(unsigned count, Work&& work) {
  std::vector<std::string> failures(count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (const std::exception& e) {
        failures[i] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& f : failures) EXPECT_EQ(f, "");
}

/// Resident memory of this process in bytes.
inline std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0, resident = 0;
  return file >> pages >> resident ? resident * 4096 : 0;
}

inline Kernel neg_kernel(Device& device) {
  return device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < arrayLength(&y)) { y[i] = -x[i]; }
})",
                        .label = "neg"});
}

/// y[i] += alpha for i < n, in whole numbers: sums are exact whatever the order.
struct AddParams {
  std::uint32_t alpha, n;
};
inline Kernel add_kernel(Device& device) {
  return device.kernel({.source = R"(
struct Params { alpha: u32, n: u32 }
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.n) { y[i] += params.alpha; }
})",
                        .label = "add"});
}

/// y[i] = alpha * x[i] for i < n.
struct ScaleParams {
  float alpha;
  std::uint32_t n;
};
inline Kernel scale_kernel(Device& device) {
  return device.kernel({.source = R"(
struct Params { alpha: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.n) { y[i] = params.alpha * x[i]; }
})",
                        .label = "scale"});
}

/// c = alpha a b, for row-major a (m x k), b (k x n).
struct MatmulParams {
  std::uint32_t m, n, k;
  float alpha;
};
inline Kernel matmul_kernel(Device& device) {
  return device.kernel({.source = R"(
struct Params { m: u32, n: u32, k: u32, alpha: f32 }
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= params.n || id.y >= params.m) { return; }
  var sum = 0.0;
  for (var i = 0u; i < params.k; i++) { sum += a[id.y * params.k + i] * b[i * params.n + id.x]; }
  c[id.y * params.n + id.x] = params.alpha * sum;
})",
                        .label = "matmul"});
}

/// A kernel that takes a while: each group runs kSpinTurns steps of an LCG on its word of y. Longer work takes more
/// groups, not more turns: lavapipe silently ends all loops of an invocation after 65,535 turns in sum (LLVMpipe's
/// guard against hangs).
constexpr std::uint32_t kSpinTurns = 60'000;
inline Kernel spin_kernel(Device& device) {
  return device.kernel({.source = R"(
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) group: vec3u) {
  var s = y[group.x];
  for (var i = 0u; i < turns; i++) { s = s * 1664525u + 1013904223u; }
  y[group.x] = s;
})",
                        .label = "spin",
                        .constants = {{"turns", "u32", std::to_string(kSpinTurns)}}});
}
inline std::uint32_t spin_result(std::uint32_t start) {
  for (std::uint32_t i = 0; i < kSpinTurns; ++i) start = start * 1664525u + 1013904223u;
  return start;
}

}  // namespace weft::testing
