// ComputeBackend: the 24 methods of requirements C6, by the rules at the head of weft/backend.h; and its C ABI.
#include "weft/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "unit/core_helpers.h"
#include "weft/c_api.h"

namespace weft::testing {
namespace {

using Floats = std::vector<float>;
using Handle = ComputeBackend::Handle;
using enum Transpose;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

ComputeBackend& backend() {
  static ComputeBackend b;
  b.init();
  return b;
}

template <class T>
Handle put(const std::vector<T>& values) {
  const Handle h = backend().alloc(values.size() * sizeof(T));
  backend().copy_htod(h, std::as_bytes(std::span(values)));
  return h;
}

template <class T = float>
std::vector<T> get(Handle h, std::size_t n) {
  std::vector<T> out(n);
  backend().copy_dtoh(std::as_writable_bytes(std::span(out)), h);
  return out;
}

Floats small_integers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  Floats out(n);
  for (float& v : out) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return out;
}

// -- before init, memory
// -----------------------------------------------------------------------------------------------

TEST(Backend, EveryOpBeforeInitSaysSo) {
  ComputeBackend b;
  EXPECT_EQ(ComputeBackend::name(), "webgpu");
  EXPECT_FALSE(b.is_initialized());
  EXPECT_FALSE(ComputeBackend::available_devices().empty());
  const std::array<std::uint64_t, 1> shape{1};
  const std::vector<std::function<void()>> calls{
      [&] { b.alloc(4); },
      [&] { b.free(1); },
      [&] { b.copy_htod(1, {}); },
      [&] { b.copy_dtoh({}, 1); },
      [&] { b.synchronize(); },
      [&] { b.gemm(none, none, 1, 1, 1, 1, 1, 1, 2, 1, 0, 3, 1); },
      [&] { b.gemm_f16(none, none, 1, 1, 1, 1, 1, 1, 2, 1, 0, 3, 1); },
      [&] {
        b.gemm_mixed_precision(Precision16::half, Storage16::rounded, none, none, 1, 1, 1, 1, 1, 1, 2, 1, 0, 3, 1);
      },
      [&] { b.softmax(1, 2, shape, 0); },
      [&] { b.reduce(BackendReduce::sum, 1, 2, shape, 0); },
      [&] { b.unary(BackendUnary::relu, 1, 2, 1); },
      [&] { b.binary(BackendBinary::add, 1, 2, 3, 1); },
      [&] { b.gather(1, 1, 1, 2, 1, 3); },
      [&] { b.scatter(1, 2, 1, 3, 1, 1); },
      [&] { b.attention(1, 2, 3, 4, 1, 1, 1, 1, 1, 1, false); },
      [&] { b.capabilities(); },
      [&] { b.supports_f16(); },
  };
  for (const auto& call : calls) expect_error(error_of(call), ErrorCode::invalid_argument, {"not initialised"});
}

TEST(Backend, InitTwiceIsFineAndCapabilitiesAreTrue) {
  backend().init();
  const BackendCapabilities c = backend().capabilities();
  const Device device = backend().device();
  EXPECT_EQ(c.f16, device.features().f16);
  EXPECT_EQ(c.f16, backend().supports_f16());
  EXPECT_EQ(c.max_workgroup_threads, device.limits().max_workgroup_invocations);
  EXPECT_GE(c.max_workgroup_threads, 128u);
  EXPECT_EQ(c.max_binding_bytes, device.limits().max_storage_binding_size);
  const BackendTile small = backend().recommended_tile_for(8, 8, 8);
  const BackendTile large = backend().recommended_tile_for(4096, 4096, 4096);
  EXPECT_GT(small.m * small.n, 0u);
  EXPECT_GE(large.m * large.n, small.m * small.n);
}

// C8: 3, 6, 7, 13 bytes round trip. D7: a partial write changes exactly its bytes.
TEST(Backend, BytesRoundTripAtAnyLength) {
  for (std::size_t n : {1u, 3u, 6u, 7u, 13u, 257u}) {
    std::vector<std::uint8_t> values(n);
    std::iota(values.begin(), values.end(), std::uint8_t{1});
    const Handle h = put(values);
    EXPECT_EQ(get<std::uint8_t>(h, n), values);
    backend().free(h);
  }
  const Handle h = put(std::vector<std::uint8_t>(4, 0xff));
  const std::array<std::uint8_t, 2> two{1, 2};
  backend().copy_htod(h, std::as_bytes(std::span(two)));
  EXPECT_EQ(get<std::uint8_t>(h, 4), (std::vector<std::uint8_t>{1, 2, 0xff, 0xff}));
  EXPECT_EQ(get<std::uint8_t>(h, 2), (std::vector<std::uint8_t>{1, 2}));
  backend().copy_htod(h, {});
  backend().copy_dtoh({}, h);
  expect_error(error_of([&] { get<std::uint8_t>(h, 5); }), ErrorCode::invalid_argument, {"5", "4"});
  std::array<std::byte, 8> long_one{};
  expect_error(error_of([&] { backend().copy_htod(h, long_one); }), ErrorCode::invalid_argument, {"8", "4"});
}

TEST(Backend, AllocAndFree) {
  expect_error(error_of([&] { backend().alloc(0); }), ErrorCode::invalid_argument);
  expect_error(error_of([&] { backend().alloc(std::size_t{1} << 40); }), ErrorCode::out_of_memory);
  const Handle h = backend().alloc(16);
  EXPECT_EQ(get<float>(h, 4), Floats(4, 0.0f)) << "zeroed, also when recycled (D17)";
  backend().free(h);
  expect_error(error_of([&] { backend().free(h); }), ErrorCode::invalid_argument, {"not alive"});
  expect_error(error_of([&] { backend().unary(BackendUnary::neg, h, put(Floats{1}), 1); }), ErrorCode::invalid_argument,
               {"in", "not alive"});
  EXPECT_NE(backend().alloc(16), h);
}

// L09, D43: a handle is good for the backend that gave it; no number means one buffer here and another there.
TEST(Backend, L09_HandlesOfAnotherBackendAreRefused) {
  ComputeBackend other;
  other.init();
  const Handle mine = put(Floats{1, 2}), out = put(Floats{0, 0});
  std::vector<Handle> theirs;
  for (int i = 0; i < 50; ++i) theirs.push_back(other.alloc(8));
  for (Handle h : theirs) {
    EXPECT_NE(h, 0u);
    expect_error(error_of([&] { backend().unary(BackendUnary::neg, h, out, 2); }), ErrorCode::foreign_buffer,
                 {"in", std::to_string(h), "device"});
    expect_error(error_of([&] { backend().free(h); }), ErrorCode::foreign_buffer, {"free"});
  }
  expect_error(error_of([&] { other.free(mine); }), ErrorCode::foreign_buffer);
  EXPECT_EQ(get<float>(mine, 2), (Floats{1, 2}));
  // Buffers of the device that no backend gave are no handles either.
  const Buffer loose = backend().device().alloc(8);
  expect_error(error_of([&] { backend().free(loose.id()); }), ErrorCode::invalid_argument, {"not alive"});
  other.free(theirs[0]);
  expect_error(error_of([&] { backend().free(theirs[0]); }), ErrorCode::invalid_argument, {"not alive"});
}

// B9: a handle that is none and a buffer that is too small are named with all there is to know, warm or cold, and
// nothing is made or recorded for the call.
TEST(Backend, B9_RefusalsNameHandleAndBytes) {
  const Handle a = put(Floats(16, 1)), b = put(Floats(16, 1)), c = put(Floats(16, 0)), small = put(Floats(3, 5));
  const Handle dead = put(Floats(16, 1));
  backend().free(dead);
  backend().synchronize();
  for (int warm = 0; warm < 2; ++warm) {
    const Stats before = backend().device().stats();
    const auto refused = [&](Handle of_a, Handle of_b, Handle of_c, std::initializer_list<std::string_view> parts) {
      expect_error(error_of([&] { backend().gemm(none, none, 4, 4, 4, 1, of_a, 4, of_b, 4, 0, of_c, 4); }),
                   ErrorCode::invalid_argument, parts);
    };
    const std::string gone = "handle " + std::to_string(dead) + ", which is not alive";
    refused(dead, b, c, {"gemm: a is " + gone});
    refused(a, dead, c, {"gemm: b is " + gone});
    refused(a, b, dead, {"gemm: c is " + gone});
    const std::string held = " (handle " + std::to_string(small) + ") holds 12 bytes, and the call needs 64";
    refused(small, b, c, {"gemm: a" + held});
    refused(a, small, c, {"gemm: b" + held});
    refused(a, b, small, {"gemm: c" + held});
    const Stats after = backend().device().stats();
    EXPECT_EQ(after.dispatches, before.dispatches);
    EXPECT_EQ(after.bind_group_misses, before.bind_group_misses);
    EXPECT_EQ(after.pool_releases + after.live_bytes, before.pool_releases + before.live_bytes);
    backend().gemm(none, none, 4, 4, 4, 1, a, 4, b, 4, 0, c, 4);
  }
  EXPECT_EQ(get(c, 16), Floats(16, 4.0f));
  EXPECT_EQ(get(small, 3), Floats(3, 5.0f));
}

// B11: no handle is given twice, though the memory is: a key of a freed one can't come to mean another buffer.
TEST(Backend, B11_HandlesAreNeverGivenTwice) {
  const Handle out = put(Floats(16, 0));
  std::vector<Handle> given;
  const std::uint64_t made = backend().device().stats().pool_allocations;
  for (int i = 0; i < 500; ++i) {
    const Handle h = put(Floats(16, static_cast<float>(i)));
    backend().unary(BackendUnary::neg, h, out, 16);
    backend().free(h);
    given.push_back(h);
    if (i % 100 == 0) {
      EXPECT_EQ(get(out, 16), Floats(16, -static_cast<float>(i)));
    }
  }
  EXPECT_LE(backend().device().stats().pool_allocations - made, 4u);
  for (const Handle h : {given.front(), given[250], given.back()}) {
    expect_error(error_of([&] { backend().unary(BackendUnary::neg, h, out, 16); }), ErrorCode::invalid_argument,
                 {"not alive"});
  }
  EXPECT_TRUE(std::is_sorted(given.begin(), given.end()));
  EXPECT_EQ(std::adjacent_find(given.begin(), given.end()), given.end());
}

// D26: no op brings anything back to the host but those whose indices are checked: means, convolutions, attention and
// products only record.
TEST(Backend, D26_OpsReadNothingBack) {
  const Handle a = put(Floats(4096, 1)), b = put(Floats(4096, 1)), c = put(Floats(4096, 0));
  const Handle line = put(Floats(100'000, 3)), one = put(Floats(1, 0));
  const std::array<std::uint64_t, 1> length{100'000};
  const std::array<std::uint64_t, 2> square{64, 64};
  backend().synchronize();
  const Stats before = backend().device().stats();
  for (auto op : {BackendReduce::sum, BackendReduce::max, BackendReduce::min, BackendReduce::mean}) {
    backend().reduce(op, line, one, length, 0);
    backend().reduce(op, a, c, square, 1);
  }
  backend().softmax(a, c, square, 1);
  backend().gemm(none, transpose, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
  backend().gemm_mixed_precision(Precision16::bfloat16, Storage16::rounded, none, none, 64, 64, 64, 1, a, 64, b, 64, 0,
                                 c, 64);
  backend().attention(a, b, a, c, 1, 2, 32, 32, 64, 0.125, true);
  backend().conv2d_forward(a, {1, 1, 16, 16}, b, {2, 1, 3, 3}, c, {1, 2, 14, 14}, {1, 1}, {0, 0});
  backend().conv2d_backward_data(a, {1, 2, 14, 14}, b, {2, 1, 3, 3}, c, {1, 1, 16, 16}, {1, 1}, {0, 0});
  backend().conv2d_backward_filter(a, {1, 1, 16, 16}, b, {1, 2, 14, 14}, c, {2, 1, 3, 3}, {1, 1}, {0, 0});
  backend().unary(BackendUnary::tanh, a, c, 4096);
  backend().binary(BackendBinary::div, a, b, c, 4096);
  const Stats after = backend().device().stats();
  EXPECT_EQ(after.reads, before.reads);
  EXPECT_EQ(after.bytes_read, before.bytes_read);
  EXPECT_EQ(after.uploads, before.uploads);
  EXPECT_GE(after.dispatches - before.dispatches, 18u);
  EXPECT_NEAR(get(one, 1)[0], 3.0f, 1e-5f);
}

// D34, B.5 test 9: no product of an index and a stride wraps at 32 bits. Strides that nothing steps by may be anything;
// those that lead out of the buffer are refused, also where 32 bits of them would lie inside.
TEST(BackendGemm, D34_StridesPast32Bits) {
  const Handle a = put(Floats{1, 2, 3, 4}), b = put(Floats{5, 6, 7, 8}), c = put(Floats(4, 0));
  constexpr std::uint64_t kFar = (std::uint64_t{1} << 32) + 2;
  backend().batched_gemm(none, none, 1, 2, 2, 1, a, kFar, kFar, b, 2, kFar, 0, c, kFar, kFar, 1);
  EXPECT_EQ(get(c, 4), (Floats{19, 22, 0, 0}));
  const auto refused = [&](std::initializer_list<std::string_view> parts, auto&& call) {
    expect_error(error_of(call), ErrorCode::invalid_argument, parts);
  };
  refused({"a ", "17179869200"}, [&] { backend().gemm(none, none, 2, 2, 2, 1, a, kFar, b, 2, 0, c, 2); });
  refused({"b ", "17179869200"}, [&] { backend().gemm(none, none, 2, 2, 2, 1, a, 2, b, kFar, 0, c, 2); });
  refused({"c ", "17179869200"}, [&] { backend().gemm(none, none, 2, 2, 2, 1, a, 2, b, 2, 0, c, kFar); });
  refused({"a "}, [&] { backend().batched_gemm(none, none, 1, 2, 2, 1, a, 2, kFar - 2, b, 2, 0, 0, c, 2, 2, 2); });
  refused({"2^62"}, [&] { backend().gemm(none, none, kFar, 2, kFar, 1, a, kFar, b, 2, 0, c, 2); });
  EXPECT_EQ(get(c, 4), (Floats{19, 22, 0, 0}));
}

// D22, D28, B4, B7: a call that was made before makes nothing anew: no buffer, pipeline or bind group; also in a loop
// over more keys than seed B's cache had entries.
TEST(Backend, D22_WarmCallsMakeNothing) {
  ComputeBackend own;
  own.init();
  const auto make = [&](std::size_t n) { return own.alloc(n * sizeof(float)); };
  const Handle a = make(4096), b = make(4096), c = make(4096), line = make(100'000), one = make(1);
  std::vector<std::pair<Handle, Handle>> pairs;
  for (int i = 0; i < 65; ++i) pairs.emplace_back(make(64), make(64));
  const std::array<std::uint64_t, 1> length{100'000};
  const std::array<std::uint64_t, 2> square{64, 64};
  const auto calls = [&] {
    own.gemm(none, transpose, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
    own.reduce(BackendReduce::sum, line, one, length, 0);
    own.reduce(BackendReduce::max, a, b, square, 1);
    own.softmax(a, c, square, 1);
    own.attention(a, b, a, c, 1, 2, 32, 32, 64, 0.125, true);
    own.conv2d_forward(a, {1, 1, 16, 16}, b, {2, 1, 3, 3}, c, {1, 2, 14, 14}, {1, 1}, {0, 0});
    for (const auto& [in, out] : pairs) own.unary(BackendUnary::neg, in, out, 64);
    own.synchronize();
  };
  for (int i = 0; i < 3; ++i) calls();
  const Stats before = own.device().stats();
  for (int i = 0; i < 5; ++i) calls();
  const Stats after = own.device().stats();
  EXPECT_GE(after.dispatches - before.dispatches, 5u * 71);
  EXPECT_EQ(after.pool_allocations, before.pool_allocations);
  EXPECT_EQ(after.pipeline_misses, before.pipeline_misses);
  EXPECT_EQ(after.bind_group_misses, before.bind_group_misses);
  EXPECT_EQ(after.staging_allocations, before.staging_allocations);
  EXPECT_LE(after.submits - before.submits, 5u * 3);  // D23: not one a call
}

TEST(Backend, TilesForAnyLengths) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, kMost}) {
    const BackendTile t = backend().recommended_tile_for(n, kMost - n, n);
    EXPECT_GT(t.m, 0u);
    EXPECT_GT(t.n, 0u);
    EXPECT_GT(t.k, 0u);
  }
}

// -- gemm
// ------------------------------------------------------------------------------------------------------------

struct GemmCase {
  Transpose ta, tb;
  std::size_t m, n, k, pad;
};

Floats reference(const GemmCase& g, const Floats& a, std::size_t lda, const Floats& b, std::size_t ldb, double alpha,
                 double beta, const Floats& c, std::size_t ldc) {
  Floats out = c;
  for (std::size_t i = 0; i < g.m; ++i) {
    for (std::size_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < g.k; ++p) {
        sum += double{g.ta == none ? a[i * lda + p] : a[p * lda + i]} *
               double{g.tb == none ? b[p * ldb + j] : b[j * ldb + p]};
      }
      out[i * ldc + j] = static_cast<float>(alpha * sum + (beta == 0 ? 0 : beta * double{c[i * ldc + j]}));
    }
  }
  return out;
}

// C8: NN, NT, TN, TT, conjugate, larger than one tile; padded leading dimensions, whose gaps stay as they are.
TEST(BackendGemm, TransposesAndLeadingDimensions) {
  unsigned seed = 0;
  for (Transpose ta : {none, transpose, conjugate}) {
    for (Transpose tb : {none, transpose, conjugate}) {
      for (const auto& [m, n, k, pad] : std::vector<std::array<std::size_t, 4>>{
               {1, 1, 1, 0}, {3, 5, 7, 2}, {17, 33, 9, 0}, {65, 70, 130, 3}, {128, 64, 32, 4}}) {
        const GemmCase g{ta, tb, m, n, k, pad};
        const std::size_t rows_a = ta == none ? m : k, lda = (ta == none ? k : m) + pad;
        const std::size_t rows_b = tb == none ? k : n, ldb = (tb == none ? n : k) + pad;
        const std::size_t ldc = n + pad;
        const Floats a = small_integers(rows_a * lda, ++seed), b = small_integers(rows_b * ldb, ++seed);
        const Floats c = small_integers(m * ldc, ++seed);
        const Handle ha = put(a), hb = put(b), hc = put(c);
        backend().gemm(ta, tb, m, n, k, 2, ha, lda, hb, ldb, -1, hc, ldc);
        EXPECT_EQ(get(hc, c.size()), reference(g, a, lda, b, ldb, 2, -1, c, ldc)) << m << " " << n << " " << k;
        for (Handle h : {ha, hb, hc}) backend().free(h);
      }
    }
  }
}

// D8: beta = 0 never reads C; k = 0 scales C; m or n = 0 does nothing.
TEST(BackendGemm, BlasRules) {
  const Handle a = put(Floats{1, 2, 3, 4}), b = put(Floats{5, 6, 7, 8});
  const Handle c = put(Floats{kNaN, kInfinity, kNaN, -kInfinity});
  backend().gemm(none, none, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
  EXPECT_EQ(get(c, 4), (Floats{19, 22, 43, 50}));
  backend().gemm(none, none, 2, 2, 0, 1, a, 2, b, 2, 0.5, c, 2);
  EXPECT_EQ(get(c, 4), (Floats{9.5, 11, 21.5, 25}));
  backend().gemm(none, none, 2, 2, 0, 1, a, 2, b, 2, 0, c, 2);
  EXPECT_EQ(get(c, 4), Floats(4, 0.0f));
  backend().gemm(none, none, 0, 2, 2, 1, a, 2, b, 2, 0, c, 2);
  backend().gemm(none, none, 2, 0, 2, 1, a, 2, b, 2, 0, c, 2);
}

// D5, D9: too small buffers and leading dimensions, aliases, dead handles: refused on every call, warm ones too.
TEST(BackendGemm, RefusesWhatDoesNotFit) {
  const Handle a = put(Floats(4096, 1)), b = put(Floats(4096, 1)), c = put(Floats(4096, 9));
  const Handle tiny = put(Floats(4, 9));
  for (int warm = 0; warm < 2; ++warm) {
    backend().gemm(none, none, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64);
    expect_error(error_of([&] { backend().gemm(none, none, 64, 64, 64, 1, tiny, 64, b, 64, 0, c, 64); }),
                 ErrorCode::invalid_argument, {"a", "16 bytes", "16384"});
    expect_error(error_of([&] { backend().gemm(none, none, 64, 64, 64, 1, a, 64, tiny, 64, 0, c, 64); }),
                 ErrorCode::invalid_argument, {"b", "16 bytes"});
    expect_error(error_of([&] { backend().gemm(none, none, 64, 64, 64, 1, a, 64, b, 64, 0, tiny, 64); }),
                 ErrorCode::invalid_argument, {"c", "16 bytes"});
    expect_error(error_of([&] { backend().gemm(none, none, 64, 64, 64, 1, a, 63, b, 64, 0, c, 64); }),
                 ErrorCode::invalid_argument, {"leading dimension of a", "63", "64"});
    expect_error(error_of([&] { backend().gemm(none, none, 64, 64, 64, 1, a, 64, b, 64, 0, a, 64); }),
                 ErrorCode::invalid_argument, {"a", "c"});
    const std::uint64_t huge = std::uint64_t{1} << 40;
    EXPECT_THROW(backend().gemm(none, none, huge, huge, 1, 1, a, 1, b, huge, 0, c, huge), Error);
  }
  EXPECT_EQ(get(tiny, 4), Floats(4, 9.0f));
  EXPECT_EQ(get(c, 4096), Floats(4096, 64.0f));
}

// B.5 test 3: thirty gemms on the same handles, other alpha each, and one read.
TEST(BackendGemm, ParametersBelongToTheirCall) {
  const Handle a = put(Floats{1, 2, 3, 4}), b = put(Floats{5, 6, 7, 8}), c = put(Floats(4, 0));
  for (int i = 0; i < 30; ++i) backend().gemm(none, none, 2, 2, 2, 1000.0 * i + 7, a, 2, b, 2, 0, c, 2);
  EXPECT_EQ(get(c, 4), (Floats{19 * 29007.0f, 22 * 29007.0f, 43 * 29007.0f, 50 * 29007.0f}));
}

// D2: eight threads add into one C through the same handles; the result is exact.
TEST(BackendGemm, ThreadsShareHandles) {
  const Handle a = put(Floats{1}), b = put(Floats{1}), c = put(Floats{0});
  constexpr int kRounds = 125;
  run_threads(8, [&](unsigned t) {
    for (int i = 0; i < kRounds; ++i) backend().gemm(none, none, 1, 1, 1, t % 2 == 0 ? 1 : 1000, a, 1, b, 1, 1, c, 1);
  });
  EXPECT_EQ(get(c, 1)[0], 4 * kRounds * 1001.0f);
}

// B.5 test 4, 5: other buffers go on after one is freed; an alloc, gemm, free loop leaves nothing behind.
TEST(BackendGemm, FreedHandlesLeaveTheCache) {
  const Handle a = put(Floats{1, 2, 3, 4}), b = put(Floats{5, 6, 7, 8});
  const Handle first = put(Floats(4, 0)), second = put(Floats(4, 0));
  backend().gemm(none, none, 2, 2, 2, 1, a, 2, b, 2, 0, first, 2);
  backend().gemm(none, none, 2, 2, 2, 1, a, 2, b, 2, 0, second, 2);
  backend().free(first);
  backend().gemm(none, none, 2, 2, 2, 2, a, 2, b, 2, 0, second, 2);
  EXPECT_EQ(get(second, 4), (Floats{38, 44, 86, 100}));
  const std::uint64_t live = backend().device().stats().live_bytes;
  for (int i = 0; i < 200; ++i) {
    const Handle c = backend().alloc(16);
    backend().gemm(none, none, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    backend().free(c);
  }
  backend().synchronize();
  EXPECT_EQ(backend().device().stats().live_bytes, live);
  Device(backend().device()).trim();
  EXPECT_LE(backend().device().stats().bind_group_entries, 256u);
}

TEST(BackendGemm, Batches) {
  const std::size_t m = 3, n = 4, k = 5, batch = 7;
  const GemmCase g{none, transpose, m, n, k, 0};
  const Floats a = small_integers(batch * m * k, 1), b = small_integers(n * k, 2);  // b serves all
  const Handle ha = put(a), hb = put(b), hc = put(Floats(batch * (m * n + 2), -1));
  backend().batched_gemm(none, transpose, m, n, k, 1, ha, k, m * k, hb, k, 0, 0, hc, n, m * n + 2, batch);
  const Floats got = get(hc, batch * (m * n + 2));
  for (std::size_t z = 0; z < batch; ++z) {
    const Floats one(a.begin() + static_cast<std::ptrdiff_t>(z * m * k),
                     a.begin() + static_cast<std::ptrdiff_t>((z + 1) * m * k));
    const Floats want = reference(g, one, k, b, k, 1, 0, Floats(m * n), n);
    for (std::size_t i = 0; i < m * n; ++i) EXPECT_EQ(got[z * (m * n + 2) + i], want[i]);
    EXPECT_EQ(got[z * (m * n + 2) + m * n], -1);  // the gap between matrices
  }
  expect_error(error_of([&] {
                 backend().batched_gemm(none, transpose, m, n, k, 1, ha, k, m * k, hb, k, 0, 0, hc, n, m * n - 1,
                                        batch);
               }),
               ErrorCode::invalid_argument, {"batched_gemm", "12", "11"});
}

// B.5 test 9 (there: refused): 70,000 matrices are all multiplied.
TEST(BackendGemm, ManyBatches) {
  const std::size_t batch = 70000;
  Floats a(batch);
  std::iota(a.begin(), a.end(), 0.0f);
  const Handle ha = put(a), hb = put(Floats{2}), hc = put(Floats(batch, 0));
  backend().batched_gemm(none, none, 1, 1, 1, 1, ha, 1, 1, hb, 1, 0, 0, hc, 1, 1, batch);
  Floats want(batch);
  for (std::size_t i = 0; i < batch; ++i) want[i] = 2.0f * static_cast<float>(i);
  EXPECT_EQ(get(hc, batch), want);
}

float to_bfloat16(float v) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(v);
  if (std::isnan(v)) return v;
  u += 0x7fff + ((u >> 16) & 1);
  return std::bit_cast<float>(u & 0xffff0000u);
}

// C6.9: A and B rounded to the format, nearest even, sums in f32; also stored in 16 bits.
TEST(BackendGemm, MixedPrecision) {
  std::mt19937 random(5);
  Floats values{1.0f,  1.0f + 0x1p-8f, 1.0f + 0x1.8p-8f, 65504.0f,     65519.9f,   65520.0f, 1e-8f,
                6e-8f, -3e-8f,         0x1p-14f,         0x1.ffcp-15f, 0x1p-24f,   0x1p-25f, 0x1.8p-25f,
                -0.0f, 3.1415927f,     -2.71828f,        1e30f,        -kInfinity, 0.1f};
  for (int i = 0; i < 2000; ++i) {
    // Any bits but NaN and those near the largest, so that sums of one product stay finite.
    const float v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(v) && std::fabs(v) >= 0x1p-120f) values.push_back(v);
  }
  const std::size_t n = values.size();
  const Handle a = put(values), one = put(Floats{1}), c = put(Floats(n, 0));
  const auto run = [&](Precision16 format, Storage16 storage, Handle ha, Handle hb) {
    backend().gemm_mixed_precision(format, storage, none, none, n, 1, 1, 1, ha, 1, hb, 1, 0, c, 1);
    return get(c, n);
  };
  const Floats half = run(Precision16::half, Storage16::rounded, a, one);
  const Floats brain = run(Precision16::bfloat16, Storage16::rounded, a, one);
  std::vector<std::uint16_t> half_bits(n), brain_bits(n);
  for (std::size_t i = 0; i < n; ++i) {
    half_bits[i] = float16(values[i]).bits;
    brain_bits[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(to_bfloat16(values[i])) >> 16);
    EXPECT_EQ(half[i], static_cast<float>(float16(values[i]))) << values[i];
    EXPECT_EQ(brain[i], to_bfloat16(values[i])) << values[i];
  }
  const std::vector<std::uint16_t> half_one{float16(1.0f).bits}, brain_one{0x3f80};
  EXPECT_EQ(run(Precision16::half, Storage16::packed, put(half_bits), put(half_one)), half);
  EXPECT_EQ(run(Precision16::bfloat16, Storage16::packed, put(brain_bits), put(brain_one)), brain);
}

TEST(BackendGemm, F16) {
  const std::vector<float16> a{float16(1.0f), float16(2.0f), float16(3.0f), float16(4.0f)};
  const Handle ha = put(a), hb = put(a), hc = put(std::vector<float16>(4));
  if (!backend().supports_f16()) {
    expect_error(error_of([&] { backend().gemm_f16(none, none, 2, 2, 2, 1, ha, 2, hb, 2, 0, hc, 2); }),
                 ErrorCode::unsupported, {"f16"});
    return;
  }
  backend().gemm_f16(none, none, 2, 2, 2, 1, ha, 2, hb, 2, 0, hc, 2);
  const auto got = get<float16>(hc, 4);
  EXPECT_EQ(got, (std::vector<float16>{float16(7.0f), float16(10.0f), float16(15.0f), float16(22.0f)}));
}

// -- elementwise, reductions, rows
// -------------------------------------------------------------------------------------

// D6: exactly n elements change.
TEST(Backend, UnaryAndBinaryChangeExactlyN) {
  const Handle in = put(Floats(1000, 2)), out = put(Floats(1000, 7));
  backend().unary(BackendUnary::neg, in, out, 3);
  Floats want(1000, 7);
  std::fill_n(want.begin(), 3, -2.0f);
  EXPECT_EQ(get(out, 1000), want);
  backend().binary(BackendBinary::mul, in, in, out, 257);  // a == b is fine
  std::fill_n(want.begin(), 257, 4.0f);
  EXPECT_EQ(get(out, 1000), want);
  backend().unary(BackendUnary::exp, in, out, 0);
  expect_error(error_of([&] { backend().unary(BackendUnary::neg, in, in, 3); }), ErrorCode::invalid_argument,
               {"in", "out"});
  expect_error(error_of([&] { backend().binary(BackendBinary::add, in, out, out, 3); }), ErrorCode::invalid_argument,
               {"b", "out"});
  expect_error(error_of([&] { backend().unary(BackendUnary::neg, in, out, 1001); }), ErrorCode::invalid_argument,
               {"4000", "4004"});
}

TEST(Backend, UnaryValues) {
  const Floats x{-2, -0.5f, 0, 0.5f, 3};
  const Handle in = put(x), out = put(Floats(5, 0));
  const auto check = [&](BackendUnary op, auto f) {
    backend().unary(op, in, out, 5);
    const Floats got = get(out, 5);
    for (std::size_t i = 0; i < 5; ++i) {
      const auto want = static_cast<float>(f(double{x[i]}));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[i]));
      } else if (std::isinf(want)) {
        EXPECT_EQ(got[i], want);
      } else {
        EXPECT_NEAR(got[i], want, 1e-6 * std::max(1.0f, std::fabs(want))) << static_cast<int>(op) << " of " << x[i];
      }
    }
  };
  check(BackendUnary::relu, [](double v) { return std::max(v, 0.0); });
  check(BackendUnary::sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); });
  check(BackendUnary::tanh, [](double v) { return std::tanh(v); });
  check(BackendUnary::exp, [](double v) { return std::exp(v); });
  check(BackendUnary::log, [](double v) { return std::log(v); });
  check(BackendUnary::sqrt, [](double v) { return std::sqrt(v); });
  check(BackendUnary::abs, [](double v) { return std::fabs(v); });
  check(BackendUnary::neg, [](double v) { return -v; });
}

TEST(Backend, BinaryValues) {
  const Floats a{1, -4, 0, 9, kNaN}, b{2, 2, 0.5f, -3, 1};
  const Handle ha = put(a), hb = put(b), out = put(Floats(5, 0));
  const auto of = [&](BackendBinary op) {
    backend().binary(op, ha, hb, out, 5);
    return get(out, 5);
  };
  const auto first4 = [](Floats v) { return Floats(v.begin(), v.begin() + 4); };
  EXPECT_EQ(first4(of(BackendBinary::add)), (Floats{3, -2, 0.5f, 6}));
  EXPECT_EQ(first4(of(BackendBinary::sub)), (Floats{-1, -6, -0.5f, 12}));
  EXPECT_EQ(first4(of(BackendBinary::mul)), (Floats{2, -8, 0, -27}));
  EXPECT_EQ(first4(of(BackendBinary::div)), (Floats{0.5f, -2, 0, -3}));
  EXPECT_EQ(first4(of(BackendBinary::max)), (Floats{2, 2, 0.5f, 9}));
  EXPECT_EQ(first4(of(BackendBinary::min)), (Floats{1, -4, 0, -3}));
  EXPECT_TRUE(std::isnan(of(BackendBinary::max)[4]));
  EXPECT_TRUE(std::isnan(of(BackendBinary::min)[4]));
}

// B.5 test 2: eight in a row with no wait, then one read.
TEST(Backend, ChainsWithoutWaits) {
  const Floats x = small_integers(300, 3);
  Handle from = put(x), to = put(Floats(300, 0));
  for (int i = 0; i < 8; ++i) {
    backend().unary(BackendUnary::neg, from, to, 300);
    std::swap(from, to);
  }
  EXPECT_EQ(get(from, 300), x);
}

// D4: the sizes are checked on warm calls too. C8: ranks 1 to 4, every axis, lengths of 1 and over 256.
TEST(Backend, Reductions) {
  const std::vector<std::vector<std::uint64_t>> shapes{{257}, {100000}, {3, 300}, {2, 1, 5}, {2, 3, 4, 5}};
  for (const auto& shape : shapes) {
    const std::uint64_t count = std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
    const Floats x = small_integers(count, static_cast<unsigned>(count));
    const Handle in = put(x);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::uint64_t outer = 1, inner = 1;
      for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
      for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
      const Handle out = put(Floats(outer * inner, -1));
      for (auto op : {BackendReduce::sum, BackendReduce::max, BackendReduce::min, BackendReduce::mean}) {
        backend().reduce(op, in, out, shape, axis);
        const Floats got = get(out, outer * inner);
        for (std::uint64_t o = 0; o < outer; ++o) {
          for (std::uint64_t i = 0; i < inner; ++i) {
            double sum = 0, most = -kInfinity, least = kInfinity;
            for (std::uint64_t d = 0; d < shape[axis]; ++d) {
              const double v = x[(o * shape[axis] + d) * inner + i];
              sum += v;
              most = std::max(most, v);
              least = std::min(least, v);
            }
            const double want = op == BackendReduce::sum   ? sum
                                : op == BackendReduce::max ? most
                                : op == BackendReduce::min ? least
                                                           : sum / static_cast<double>(shape[axis]);
            EXPECT_NEAR(got[o * inner + i], want, 1e-6 * std::fabs(want));
          }
        }
      }
      backend().free(out);
    }
    backend().free(in);
  }
}

TEST(Backend, ReductionRules) {
  const Handle in = put(Floats(12, 1)), out = put(Floats(4, 9));
  using U = std::vector<std::uint64_t>;
  for (int warm = 0; warm < 2; ++warm) {
    backend().reduce(BackendReduce::sum, in, out, U{3, 4}, 0);
    expect_error(error_of([&] { backend().reduce(BackendReduce::sum, in, out, U{300, 4}, 0); }),
                 ErrorCode::invalid_argument, {"in", "48 bytes", "4800"});
    expect_error(error_of([&] { backend().reduce(BackendReduce::sum, in, out, U{2, 6}, 0); }),
                 ErrorCode::invalid_argument, {"out", "16 bytes", "24"});
  }
  expect_error(error_of([&] { backend().reduce(BackendReduce::sum, in, out, U{}, 0); }), ErrorCode::invalid_argument);
  expect_error(error_of([&] { backend().reduce(BackendReduce::sum, in, out, U{3, 4}, 2); }),
               ErrorCode::invalid_argument);
  backend().reduce(BackendReduce::sum, in, out, U{0, 4}, 0);
  EXPECT_EQ(get(out, 4), Floats(4, 0.0f));
  backend().reduce(BackendReduce::max, in, out, U{0, 4}, 0);
  EXPECT_EQ(get(out, 4), Floats(4, -kInfinity));
  backend().reduce(BackendReduce::min, in, out, U{0, 4}, 0);
  EXPECT_EQ(get(out, 4), Floats(4, kInfinity));
  backend().reduce(BackendReduce::mean, in, out, U{0, 4}, 0);
  EXPECT_TRUE(std::isnan(get(out, 4)[0]));
  const Handle with_nan = put(Floats{1, kNaN, 3});
  backend().reduce(BackendReduce::max, with_nan, out, U{3}, 0);
  EXPECT_TRUE(std::isnan(get(out, 1)[0]));
}

TEST(Backend, Softmax) {
  const Handle in = put(Floats{0, std::log(3.0f), 1, 1, 1000, 1000}), out = put(Floats(6, 0));
  const std::vector<std::uint64_t> shape{3, 2};
  backend().softmax(in, out, shape, 1);
  const Floats got = get(out, 6), want{0.25f, 0.75f, 0.5f, 0.5f, 0.5f, 0.5f};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
}

// -- gather, scatter, layers
// -------------------------------------------------------------------------------------------

TEST(Backend, GatherAndScatter) {
  const Handle in = put(Floats{0, 1, 10, 11, 20, 21}), out = put(Floats(6, -1));
  backend().gather(in, 3, 2, put(std::vector<std::uint32_t>{2, 0}), 2, out);
  EXPECT_EQ(get(out, 6), (Floats{20, 21, 0, 1, -1, -1}));
  const Handle bad = put(std::vector<std::uint32_t>{0, 3});
  expect_error(error_of([&] { backend().gather(in, 3, 2, bad, 2, out); }), ErrorCode::out_of_range,
               {"gather: index 3"});
  EXPECT_EQ(get(out, 6), (Floats{20, 21, 0, 1, -1, -1}));
  // Other rows stay; of equal indices the last wins.
  backend().scatter(in, put(std::vector<std::uint32_t>{1, 2, 1}), 3, out, 3, 2);
  EXPECT_EQ(get(out, 6), (Floats{20, 21, 20, 21, 10, 11}));
  expect_error(error_of([&] { backend().scatter(in, bad, 2, out, 3, 2); }), ErrorCode::out_of_range,
               {"scatter: index 3"});
  EXPECT_EQ(get(out, 6), (Floats{20, 21, 20, 21, 10, 11}));
}

using Dims4 = ComputeBackend::Dims4;

Floats conv_reference(const Floats& x, Dims4 xs, const Floats& f, Dims4 fs, Dims4 ys, std::size_t stride,
                      std::size_t pad) {
  Floats y(ys[0] * ys[1] * ys[2] * ys[3]);
  std::size_t at = 0;
  for (std::size_t n = 0; n < ys[0]; ++n)
    for (std::size_t k = 0; k < ys[1]; ++k)
      for (std::size_t oh = 0; oh < ys[2]; ++oh)
        for (std::size_t ow = 0; ow < ys[3]; ++ow, ++at) {
          double sum = 0;
          for (std::size_t c = 0; c < xs[1]; ++c)
            for (std::size_t fh = 0; fh < fs[2]; ++fh)
              for (std::size_t fw = 0; fw < fs[3]; ++fw) {
                const std::size_t h = oh * stride + fh - pad, w = ow * stride + fw - pad;  // wraps below 0: outside
                if (h >= xs[2] || w >= xs[3]) continue;
                sum += double{x[((n * xs[1] + c) * xs[2] + h) * xs[3] + w]} *
                       double{f[((k * fs[1] + c) * fs[2] + fh) * fs[3] + fw]};
              }
          y[at] = static_cast<float>(sum);
        }
  return y;
}

TEST(Backend, Convolutions) {
  for (const auto& [stride, pad, size] :
       std::vector<std::array<std::size_t, 3>>{{1, 0, 1}, {1, 1, 3}, {2, 1, 3}, {2, 2, 5}}) {
    const Dims4 xs{2, 3, 9, 8}, fs{5, 3, size, size};
    const auto out = [&](std::size_t in) { return (in + 2 * pad - size) / stride + 1; };
    const Dims4 ys{2, 5, out(9), out(8)};
    const auto count = [](const Dims4& d) { return d[0] * d[1] * d[2] * d[3]; };
    const Floats x = small_integers(count(xs), 1), f = small_integers(count(fs), 2), g = small_integers(count(ys), 3);
    const Handle hx = put(x), hf = put(f), hy = put(Floats(count(ys), 0)), hg = put(g);
    backend().conv2d_forward(hx, xs, hf, fs, hy, ys, {stride, stride}, {pad, pad});
    EXPECT_EQ(get(hy, count(ys)), conv_reference(x, xs, f, fs, ys, stride, pad));
    // The gradients by the adjoint identity: <conv(x, f), g> = <x, backward_data(g, f)> = <f, backward_filter(x, g)>.
    const Handle dx = put(Floats(count(xs), 0)), df = put(Floats(count(fs), 0));
    backend().conv2d_backward_data(hg, ys, hf, fs, dx, xs, {stride, stride}, {pad, pad});
    backend().conv2d_backward_filter(hx, xs, hg, ys, df, fs, {stride, stride}, {pad, pad});
    const auto dot = [](const Floats& a, const Floats& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    const double want = dot(get(hy, count(ys)), g);
    EXPECT_EQ(dot(x, get(dx, count(xs))), want);
    EXPECT_EQ(dot(f, get(df, count(fs))), want);
  }
}

// D10: shapes that contradict each other are refused.
TEST(Backend, ConvolutionShapes) {
  const Handle x = put(Floats(64, 0)), f = put(Floats(64, 0)), y = put(Floats(64, 0));
  const auto refused = [&](Dims4 xs, Dims4 fs, Dims4 ys, ComputeBackend::Dims2 stride = {1, 1}) {
    expect_error(error_of([&] { backend().conv2d_forward(x, xs, f, fs, y, ys, stride, {0, 0}); }),
                 ErrorCode::invalid_argument, {"conv2d_forward"});
  };
  refused({1, 2, 4, 4}, {1, 1, 3, 3}, {1, 1, 2, 2});
  refused({1, 1, 4, 4}, {2, 1, 3, 3}, {1, 1, 2, 2});
  refused({2, 1, 4, 4}, {1, 1, 3, 3}, {1, 1, 2, 2});
  refused({1, 1, 4, 4}, {1, 1, 3, 3}, {1, 1, 3, 3});
  refused({1, 1, 2, 2}, {1, 1, 3, 3}, {1, 1, 1, 1});
  refused({1, 1, 4, 4}, {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 1});
}

Floats attention_reference(const Floats& q, const Floats& k, const Floats& v, std::size_t heads, std::size_t sq,
                           std::size_t skv, std::size_t d, double scale, bool causal) {
  Floats out(heads * sq * d);
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < sq; ++i) {
      std::vector<double> p(skv, 0);
      double sum = 0;
      for (std::size_t j = 0; j < skv; ++j) {
        if (causal && j + sq > i + skv) continue;
        double s = 0;
        for (std::size_t e = 0; e < d; ++e) s += double{q[(h * sq + i) * d + e]} * double{k[(h * skv + j) * d + e]};
        p[j] = std::exp(s * scale);
        sum += p[j];
      }
      for (std::size_t e = 0; e < d; ++e) {
        double o = 0;
        for (std::size_t j = 0; j < skv; ++j) o += p[j] * double{v[(h * skv + j) * d + e]};
        out[(h * sq + i) * d + e] = static_cast<float>(sum > 0 ? o / sum : 0);
      }
    }
  return out;
}

TEST(Backend, Attention) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const auto& [sq, skv, d] :
       std::vector<std::array<std::size_t, 3>>{{1, 1, 1}, {1, 3, 4}, {5, 9, 8}, {33, 65, 17}, {7, 3, 16}}) {
    const std::size_t heads = 3;
    const auto values = [&](std::size_t n) {
      Floats out(n);
      for (float& f : out) f = normal(random);
      return out;
    };
    const Floats q = values(heads * sq * d), k = values(heads * skv * d), v = values(heads * skv * d);
    const Handle hq = put(q), hk = put(k), hv = put(v), ho = put(Floats(q.size(), 9));
    for (bool causal : {false, true}) {
      // Twice: a reused output does not add up.
      for (int i = 0; i < 2; ++i) backend().attention(hq, hk, hv, ho, 1, heads, sq, skv, d, 0.5, causal);
      const Floats got = get(ho, q.size()), want = attention_reference(q, k, v, heads, sq, skv, d, 0.5, causal);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], want[i], 1e-5) << sq << " " << skv << " " << causal;
    }
  }
  const Handle x = put(Floats(4, 1)), o = put(Floats(4, 0));
  for (double scale : {0.0, -1.0, double{kNaN}, double{kInfinity}}) {
    expect_error(error_of([&] { backend().attention(x, x, x, o, 1, 1, 2, 2, 2, scale, false); }),
                 ErrorCode::invalid_argument, {"scale"});
  }
  expect_error(error_of([&] { backend().attention(x, x, x, o, 1, 1, 0, 2, 2, 1, false); }),
               ErrorCode::invalid_argument);
  expect_error(error_of([&] { backend().attention(x, x, x, x, 1, 1, 2, 2, 2, 1, false); }),
               ErrorCode::invalid_argument);
}

TEST(Backend, ADestroyedDeviceFailsFast) {
  ComputeBackend b;
  b.init();
  const Handle h = b.alloc(16);
  b.device().destroy();
  expect_error(error_of([&] { b.alloc(16); }), ErrorCode::device_lost);
  expect_error(error_of([&] { b.synchronize(); }), ErrorCode::device_lost);
  std::array<std::byte, 16> bytes{};
  expect_error(error_of([&] { b.copy_dtoh(bytes, h); }), ErrorCode::device_lost);
}

// D40: after a loss there is a way back: init() opens another device, on which the lost one's handles are not alive.
TEST(Backend, D40_InitAfterALoss) {
  ComputeBackend b;
  b.init();
  const Handle old = b.alloc(16);
  const std::uint64_t first = b.device().id();
  b.device().destroy();
  EXPECT_FALSE(b.is_initialized());
  expect_error(error_of([&] { b.alloc(16); }), ErrorCode::device_lost, {"init()"});
  b.init();
  EXPECT_TRUE(b.is_initialized());
  const std::uint64_t second = b.device().id();
  EXPECT_NE(second, first);
  b.init();
  EXPECT_EQ(b.device().id(), second);
  expect_error(error_of([&] { b.free(old); }), ErrorCode::invalid_argument, {"not alive"});
  const Handle in = b.alloc(16), out = b.alloc(16);
  EXPECT_NE(in, old);
  const Floats values{1, -2, 3, -4};
  b.copy_htod(in, std::as_bytes(std::span(values)));
  expect_error(error_of([&] { b.unary(BackendUnary::neg, old, out, 4); }), ErrorCode::invalid_argument, {"not alive"});
  b.unary(BackendUnary::neg, in, out, 4);
  Floats got(4);
  b.copy_dtoh(std::as_writable_bytes(std::span(got)), out);
  EXPECT_EQ(got, (Floats{-1, 2, -3, 4}));
}

// -- the C ABI
// ---------------------------------------------------------------------------------------------------------

TEST(CApi, AProductFromC) {
  EXPECT_EQ(weft_abi_version(), WEFT_ABI_VERSION);
  EXPECT_EQ(std::string_view(weft_version()), version());
  size_t count = 0;
  ASSERT_EQ(weft_device_count(&count), WEFT_OK);
  ASSERT_GT(count, 0u);
  char name[8];
  ASSERT_EQ(weft_device_name(0, name, sizeof name), WEFT_OK);
  EXPECT_EQ(std::strlen(name), 7u);
  EXPECT_EQ(weft_device_name(count, name, sizeof name), WEFT_OUT_OF_RANGE);

  weft_backend* b = nullptr;
  ASSERT_EQ(weft_backend_create(nullptr, &b), WEFT_OK);
  int32_t ready = 1;
  EXPECT_EQ(weft_backend_is_initialized(b, &ready), WEFT_OK);
  EXPECT_EQ(ready, 0);
  weft_handle h[3];
  EXPECT_EQ(weft_alloc(b, 16, &h[0]), WEFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(weft_last_error()).find("not initialised"), std::string::npos);
  ASSERT_EQ(weft_backend_init(b), WEFT_OK);
  weft_capabilities capabilities;
  ASSERT_EQ(weft_backend_capabilities(b, &capabilities), WEFT_OK);
  EXPECT_GT(capabilities.max_buffer_bytes, 0u);
  const float values[4] = {1, 2, 3, 4};
  for (weft_handle& x : h) {
    ASSERT_EQ(weft_alloc(b, sizeof values, &x), WEFT_OK);
    ASSERT_EQ(weft_copy_htod(b, x, values, sizeof values), WEFT_OK);
  }
  ASSERT_EQ(weft_gemm(b, WEFT_NO_TRANSPOSE, WEFT_TRANSPOSE, 2, 2, 2, 1, h[0], 2, h[1], 2, 0, h[2], 2), WEFT_OK)
      << weft_last_error();
  float got[4];
  ASSERT_EQ(weft_copy_dtoh(b, got, sizeof got, h[2]), WEFT_OK);
  EXPECT_EQ(std::vector<float>(got, got + 4), (Floats{5, 11, 11, 25}));
  EXPECT_EQ(weft_unary(b, 8, h[0], h[1], 4), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_unary(b, -1, h[0], h[1], 4), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_unary(b, WEFT_NEG, h[0], 999, 4), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_softmax(b, h[0], h[1], nullptr, 1, 0), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_synchronize(b), WEFT_OK);
  weft_backend_destroy(b);
  weft_backend_destroy(nullptr);
}

TEST(CApi, NullPointersAreErrors) {
  EXPECT_EQ(weft_device_count(nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_backend_create(nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_backend_init(nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_free(nullptr, 1), WEFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(weft_last_error()).find("Fix: "), std::string::npos);
  EXPECT_EQ(std::string_view(weft_status_name(WEFT_OUT_OF_MEMORY)), "out_of_memory");
  EXPECT_EQ(std::string_view(weft_status_name(7)), "unknown");
}

// A call that can't give its result back makes nothing; ranks are checked before that many lengths are read.
TEST(CApi, RefusedCallsMakeAndReadNothing) {
  weft_backend* b = nullptr;
  ASSERT_EQ(weft_backend_create(nullptr, &b), WEFT_OK);
  ASSERT_EQ(weft_backend_init(b), WEFT_OK);
  weft_handle first = 0, second = 0;
  ASSERT_EQ(weft_alloc(b, 8, &first), WEFT_OK);
  EXPECT_EQ(weft_alloc(b, 1 << 20, nullptr), WEFT_INVALID_ARGUMENT);
  ASSERT_EQ(weft_alloc(b, 8, &second), WEFT_OK);
  EXPECT_EQ(second, first + 1);  // ids of buffers: none in between
  const uint64_t shape[1] = {2};
  for (const size_t rank : {size_t{9}, SIZE_MAX}) {
    EXPECT_EQ(weft_softmax(b, first, second, shape, rank, 0), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_reduce(b, WEFT_SUM, first, second, shape, rank, 0), WEFT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(weft_last_error()).find(std::to_string(rank)), std::string::npos) << weft_last_error();
  }
  EXPECT_EQ(weft_softmax(b, first, second, shape, 1, 0), WEFT_OK) << weft_last_error();
  EXPECT_EQ(weft_unary(b, WEFT_NEG, first, 0, 1), WEFT_INVALID_ARGUMENT);  // 0 is no handle

  weft_backend* other = nullptr;
  ASSERT_EQ(weft_backend_create("", &other), WEFT_OK);
  ASSERT_EQ(weft_backend_init(other), WEFT_OK);
  EXPECT_EQ(weft_free(other, first), WEFT_FOREIGN_BUFFER);
  weft_backend_destroy(other);
  EXPECT_EQ(weft_free(b, first), WEFT_OK);
  weft_backend_destroy(b);
}

// A destroyed backend is an error, never memory that was freed, also when it goes while another thread is inside it.
TEST(CApi, DestroyedBackendsAreErrors) {
  weft_backend* b = nullptr;
  ASSERT_EQ(weft_backend_create(nullptr, &b), WEFT_OK);
  ASSERT_EQ(weft_backend_init(b), WEFT_OK);
  std::atomic<int> rounds{0};
  std::thread user([&] {
    for (;; ++rounds) {
      weft_handle h = 0;
      const weft_status made = weft_alloc(b, 64, &h);
      const weft_status freed = made == WEFT_OK ? weft_free(b, h) : made;
      if (freed == WEFT_OK) continue;
      EXPECT_EQ(freed, WEFT_INVALID_ARGUMENT) << weft_last_error();
      break;
    }
  });
  while (rounds < 100) std::this_thread::yield();
  weft_backend_destroy(b);
  user.join();
  weft_handle h = 7;
  EXPECT_EQ(weft_alloc(b, 64, &h), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(h, 7u);
  EXPECT_NE(std::string(weft_last_error()).find("weft_backend_destroy"), std::string::npos) << weft_last_error();
  EXPECT_EQ(weft_backend_init(b), WEFT_INVALID_ARGUMENT);
  weft_backend_destroy(b);
  weft_backend_destroy(nullptr);
  weft_backend* next = nullptr;
  ASSERT_EQ(weft_backend_create(nullptr, &next), WEFT_OK);
  EXPECT_NE(next, b);  // never the same again
  weft_backend_destroy(next);
}

TEST(CApi, ABadAdapterNameIsRefused) {
  weft_backend* b = nullptr;
  ASSERT_EQ(weft_backend_create("no such adapter", &b), WEFT_OK);
  EXPECT_NE(weft_backend_init(b), WEFT_OK);
  EXPECT_NE(std::string(weft_last_error()).find("no such adapter"), std::string::npos);
  weft_backend_destroy(b);
}

}  // namespace
}  // namespace weft::testing
