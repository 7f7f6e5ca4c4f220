#include "weft/fft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "ops/copy.h"
#include "ops/fft.h"
#include "ops/infer_signal.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "ops/wgsl.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace ops {
namespace {

constexpr std::int64_t kDirect = 32;  ///< up to so many points, the sums as they stand

constexpr std::uint32_t kSwapIn = 0x10000, kSwapSums = 0x20000, kSwapOut = 0x40000, kChirpIn = 0x80000,
                        kFactorsOut = 0x100000, kHermitian = 0x200000;

struct Params {
  std::uint32_t points, rows, steps;
  float scale;
  std::uint32_t kept_inner, in_offset, in_stride0, in_stride1, in_stride, in_length;
  std::uint32_t out_offset, out_stride0, out_stride1, out_stride, out_length;
};

constexpr std::string_view kDirectText = R"(
@compute @workgroup_size(64) fn direct(@builtin(global_invocation_id) id: vec3u) {
  let t = linear_index(id);
  if (t >= params.rows * params.out_length) { return; }
  let row = t / params.out_length;
  let k = t % params.out_length;
  let place = in_place(row);
  var sum = vec2f();
  var turn = 0u;
  for (var i = 0u; i < params.points; i++) {
    sum += product(read_in(place, i), roots[turn]);
    turn += k;
    if (turn >= params.points) { turn -= params.points; }
  }
  write_out(out_place(row), k, sum);
}
)";

/// The points of a butterfly by the pattern `read`, where {i} counts them, times their twiddle factors by `root`.
std::string butterfly_reads(std::uint32_t radix, std::string_view tag, std::string_view read, std::string_view root) {
  std::string text;
  for (std::uint32_t i = 0; i < radix; ++i) {
    const std::string point = fmt::format(fmt::runtime(read), fmt::arg("i", i));
    text += i == 0 || root.empty() ? fmt::format("  let {}{} = {};\n", tag, i, point)
                                   : fmt::format("  let {}{} = product({}, {});\n", tag, i, point,
                                                 fmt::format(fmt::runtime(root), fmt::arg("i", i)));
  }
  return text;
}

/// Its results by the pattern `write`, where {m} counts them and {y} is one.
std::string butterfly_writes(std::uint32_t radix, std::string_view tag, std::string_view write) {
  std::string arguments;
  for (std::uint32_t i = 0; i < radix; ++i) arguments += fmt::format("{}{}{}", i == 0 ? "" : ", ", tag, i);
  std::string text = fmt::format("  let {}y = transform{}({});\n", tag, radix, arguments);
  for (std::uint32_t m = 0; m < radix; ++m) {
    const std::string result = radix == 4 ? fmt::format("{}y.{}", tag, "abcd"[m])
                                          : fmt::format("{}y.{}.{}", tag, m < 4 ? "low" : "high", "abcd"[m % 4]);
    text += "  " + fmt::format(fmt::runtime(write), fmt::arg("m", m), fmt::arg("y", result)) + "\n";
  }
  return text;
}

std::string butterfly_text(std::uint32_t log_radix) {
  const std::uint32_t radix = 1u << log_radix;
  std::string text = fmt::format(R"(
@compute @workgroup_size({0}) fn butterfly(@builtin(global_invocation_id) id: vec3u) {{
  let t = linear_index(id);
  let log_m = log_n() - {1}u;
  if (t >= params.rows << log_m) {{ return; }}
  let row = t >> log_m;
  let j = t & ((1u << log_m) - 1u);
  let k = j & ((1u << log_s()) - 1u);
  let turn = log_n() - log_s() - {1}u;
  let place = in_place(row);
  let first = out_place(row);
  let at = ((j - k) << {1}u) + k;
)",
                                 kFftThreads, log_radix);
  text += butterfly_reads(radix, "v", "read_in(place, j + ({i}u << log_m))", "root(({i}u * k) << turn)");
  text += butterfly_writes(radix, "v", "write_out(first, at + ({m}u << log_s()), {y});");
  return text + "}\n";
}

/// Binary logarithms of radices 8 and 4 whose product is 2^log.
std::vector<std::uint32_t> steps_of(std::uint32_t log) {
  std::vector<std::uint32_t> steps;
  std::uint32_t left = log;
  while (left >= 5 || left == 3) {
    steps.push_back(3);
    left -= 3;
  }
  for (; left > 0; left -= 2) steps.push_back(2);
  return steps;
}

/// A column's points stand together in the tile; a thread has eight of them at a time.
std::string tile_text(std::uint32_t log_radix) {
  const std::uint32_t threads = fft_tile_threads(log_radix);
  std::string text = fmt::format(R"(
const THREADS = {0}u;
const LOG_RADIX = {1}u;
const LOG_COLUMNS = {2}u;
var<workgroup> tile: array<vec2f, THREADS * 8u>;
// Where a point of the tile lies: neighbours a power of two apart would meet in one bank.
fn slot(i: u32) -> u32 {{ return i ^ ((i >> 4u) & 15u); }}
fn tile_root(t: u32) -> vec2f {{ return roots[t << ({3}u - LOG_RADIX)]; }}

// Point e of the tile: its column, and its number in the column; neighbours are in one column or in one row.
fn column_of(e: u32, along: bool) -> u32 {{ return select(e & ((1u << LOG_COLUMNS) - 1u), e >> LOG_RADIX, along); }}
fn number_of(e: u32, along: bool) -> u32 {{ return select(e >> LOG_COLUMNS, e & ((1u << LOG_RADIX) - 1u), along); }}

@compute @workgroup_size(THREADS)
fn tile_pass(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {{
  let first = (group.x + group.y * 32768u) << LOG_COLUMNS;
  let log_m = log_n() - LOG_RADIX;
  let columns = params.rows << log_m;
  for (var q = 0u; q < 8u; q++) {{
    let e = q * THREADS + lane;
    let c = column_of(e, log_m == 0u);
    let i = number_of(e, log_m == 0u);
    let g = first + c;
    var v = vec2f();
    if (g < columns) {{
      let j = g & ((1u << log_m) - 1u);
      v = read_in(in_place(g >> log_m), j + (i << log_m));
      if (log_s() != 0u) {{
        v = product(v, root((i * (j & ((1u << log_s()) - 1u))) << (log_m - log_s())));
      }}
    }}
    tile[slot((c << LOG_RADIX) + i)] = v;
  }}
  workgroupBarrier();
)",
                                 threads, log_radix, fft_tile_log_columns(log_radix), kLogTile);
  std::uint32_t log_s = 0;
  for (const std::uint32_t step : steps_of(log_radix)) {
    const std::uint32_t radix = 1u << step;
    const std::uint32_t rest = log_radix - step;
    std::string reads, writes;
    for (std::uint32_t b = 0; b < 8 / radix; ++b) {
      const std::string tag = fmt::format("v{}_{}_", log_s, b);
      const std::string u = fmt::format("{}u", tag);
      reads += fmt::format(R"(
  let {0} = lane + {1}u * THREADS;
  let {2}j = {0} & {3}u;
  let {2}k = {2}j & {4}u;
  let {2}c = ({0} >> {5}u) << LOG_RADIX;
)",
                           u, b, tag, (1u << rest) - 1, (1u << log_s) - 1, rest);
      reads += butterfly_reads(radix, tag, fmt::format("tile[slot({0}c + {0}j + ({{i}}u << {1}u))]", tag, rest),
                               log_s == 0 ? "" : fmt::format("tile_root(({{i}}u * {}k) << {}u)", tag, rest - log_s));
      writes +=
          butterfly_writes(radix, tag,
                           fmt::format("tile[slot({0}c + (({0}j - {0}k) << {1}u) + {0}k + ({{m}}u << {2}u))] = {{y}};",
                                       tag, step, log_s));
    }
    text += fmt::format("{}  workgroupBarrier();\n{}  workgroupBarrier();\n", reads, writes);
    log_s += step;
  }
  return text + R"(
  for (var q = 0u; q < 8u; q++) {
    let e = q * THREADS + lane;
    let c = column_of(e, log_s() == 0u);
    let m = number_of(e, log_s() == 0u);
    let g = first + c;
    if (g < columns) {
      let j = g & ((1u << log_m) - 1u);
      let k = j & ((1u << log_s()) - 1u);
      write_out(out_place(g >> log_m), ((j - k) << LOG_RADIX) + k + (m << log_s()), tile[slot((c << LOG_RADIX) + m)]);
    }
  }
}
)";
}

/// A table on the device, kept for the next transform of that length.
template <class Make>
Buffer table(const Device& device, const std::string& key, Make&& make) {
  return dispatch::library_table(state_of(device), key, [&] {
    const ComplexTable values = make();
    Device owner = device;
    return owner.upload_bytes(std::as_bytes(std::span(values)));
  });
}

/// One end of a transform: rows of points in memory, in units of its own elements.
struct Side {
  BindingRange range;
  bool real = false;
  std::uint32_t offset = 0;
  std::int64_t stride0 = 0, stride1 = 0, stride = 1;
  std::uint64_t length = 0;
};

/// Which points, and what is done on the way in and out; see fft.wgsl.
struct Work {
  std::string_view name;
  std::uint64_t points = 0;  ///< of the input
  std::uint64_t rows = 1, kept_inner = 1;
  std::uint32_t in_flags = 0, out_flags = 0;
  Buffer factors_in{}, factors_out{};
  double scale = 1;
};

void run_pass(const Device& device, const FftKernel& kernel, const Work& work, const Side& in, const Side& out,
              const Buffer& roots, std::uint32_t steps, std::uint64_t points, double scale) {
  Params params{};
  params.points = static_cast<std::uint32_t>(points);
  params.rows = static_cast<std::uint32_t>(work.rows);
  params.steps = steps;
  params.scale = static_cast<float>(scale);
  params.kept_inner = static_cast<std::uint32_t>(work.kept_inner);
  params.in_offset = in.offset;
  params.in_stride0 = word(in.stride0);
  params.in_stride1 = word(in.stride1);
  params.in_stride = word(in.stride);
  params.in_length = static_cast<std::uint32_t>(in.length);
  params.out_offset = out.offset;
  params.out_stride0 = word(out.stride0);
  params.out_stride1 = word(out.stride1);
  params.out_stride = word(out.stride);
  params.out_length = static_cast<std::uint32_t>(out.length);
  FftKernel exact = kernel;
  exact.real_in = in.real;
  exact.real_out = out.real;
  const std::uint64_t n = kernel.entry == "direct" ? 0 : std::uint64_t{1} << (steps & 0xff);
  exact.plain = !in.real && !out.real && steps < kSwapIn && points == n && in.length == n && out.length == n;
  const Kernel compiled =
      dispatch::library_kernel(state_of(device), fft_key(exact), [&] { return fft_options(exact); });
  // Factors are bound also where no flag asks for them: one kernel for all.
  const BindingRange none(roots);
  const std::array<BindingRange, 5> ranges{in.range, out.range, none,
                                           work.factors_in ? BindingRange(work.factors_in) : none,
                                           work.factors_out ? BindingRange(work.factors_out) : none};
  Grid grid;
  if (kernel.entry == "direct") {
    grid = compiled.grid(grid_for(work.rows * out.length));
  } else {
    const std::uint64_t columns = work.rows << ((steps & 0xff) - kernel.log_radix);
    grid = kernel.entry == "butterfly"
               ? compiled.grid(grid_for(columns))
               : fold_groups(ceil_div(columns, std::uint64_t{1} << fft_tile_log_columns(kernel.log_radix)), work.name);
  }
  launch(device, compiled, ranges, std::as_bytes(std::span<const Params, 1>(&params, 1)), grid);
}

/// New memory for all rows of 2^log_n points.
Side work_side(const Device& device, const Work& work, std::uint32_t log_n) {
  const std::uint64_t n = std::uint64_t{1} << log_n;
  Device owner = device;
  Side side;
  side.range = BindingRange(owner.alloc(work.rows * n * 8));
  side.stride1 = static_cast<std::int64_t>(n);
  side.stride0 = static_cast<std::int64_t>(n * work.kept_inner);
  side.length = n;
  return side;
}

/// A transform of 2^log_n points, 8 or more: all passes.
void run_stockham(const Device& device, const Work& work, std::uint32_t log_n, const Side& in, const Side& out) {
  const Buffer roots = table(device, fmt::format("fft roots {}", log_n), [&] { return roots_table(log_n); });
  const bool cpu = cpu_kernels(device);
  const std::vector<std::uint32_t> passes = fft_passes(cpu, log_n);
  std::array<std::optional<Side>, 2> between;
  Side from = in;
  std::uint32_t log_s = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const bool last = i + 1 == passes.size();
    if (!last && !between[i % 2]) between[i % 2] = work_side(device, work, log_n);
    const Side& to = last ? out : between[i % 2].value();
    const std::uint32_t flags = (i == 0 ? work.in_flags : 0) | (last ? work.out_flags : 0);
    run_pass(device, {cpu ? "butterfly" : "tile", passes[i]}, work, from, to, roots, log_n | log_s << 8 | flags,
             i == 0 ? work.points : std::uint64_t{1} << log_n, last ? work.scale : 1);
    from = to;
    log_s += passes[i];
  }
}

/// Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970: with
/// i k = (i^2 + k^2 - (k - i)^2) / 2 the transform is a convolution, which two transforms of a power of two do.
void run_bluestein(const Device& device, const Work& work, std::uint32_t log_m, const Side& in, const Side& out) {
  const std::uint64_t n = work.points;
  const Buffer chirp = table(device, fmt::format("fft chirp {}", n), [&] { return chirp_table(n); });
  const Buffer spectrum = table(device, fmt::format("fft spectrum {}", n), [&] { return chirp_spectrum(n, log_m); });
  const Side middle = work_side(device, work, log_m);
  Work there = work;
  there.in_flags |= kChirpIn;
  there.factors_in = chirp;
  there.out_flags = kFactorsOut | kSwapOut;
  there.factors_out = spectrum;
  there.scale = 1;
  run_stockham(device, there, log_m, in, middle);
  Work back = work;
  back.points = std::uint64_t{1} << log_m;
  back.in_flags = 0;
  back.out_flags |= kSwapSums | kFactorsOut;
  back.factors_in = Buffer();
  back.factors_out = chirp;
  run_stockham(device, back, log_m, middle, out);
}

Tensor copy_of(const Tensor& x, std::string_view op) {
  Device device = x.device();
  const Tensor out = device.empty(x.shape(), x.dtype());
  copy_into(out, x, op);
  state_of(device).counters.materialized.fetch_add(1, std::memory_order_relaxed);
  return out;
}

bool is_power_of_2(std::int64_t n) {
  return std::has_single_bit(static_cast<std::uint64_t>(n));
}

/// Points of the arrays between passes; 0 when there are none.
std::uint64_t work_points(std::int64_t n) {
  if (n <= 4 || (n <= kDirect && !is_power_of_2(n))) return 0;
  return std::bit_ceil(static_cast<std::uint64_t>(is_power_of_2(n) ? n : 2 * n - 1));
}

struct Call {
  Transform transform;
  TransformRule rule;
};

/// Rows along the axis, of arrays that one binding each shows.
void run_rows_of(const Call& call, const Tensor& x, const Tensor& out, const AxisPair& kept) {
  const Device& device = x.device();
  const std::string_view name = to_string(call.transform);
  const auto side_of = [&](const Tensor& t, const std::array<std::int64_t, 2>& strides, bool real) {
    const Window w = window(t, name);
    const std::int64_t unit = real ? 1 : 2;
    Side side;
    side.range = w.range;
    side.real = real;
    side.offset = static_cast<std::uint32_t>(w.offset / unit);
    side.stride0 = strides[0] / unit;
    side.stride1 = strides[1] / unit;
    side.stride = t.strides()[call.rule.axis] / unit;
    side.length = static_cast<std::uint64_t>(t.shape()[call.rule.axis]);
    return side;
  };
  const Side in = side_of(x, kept.stride, call.transform == Transform::rfft);
  const Side to = side_of(out, kept.out_stride, call.transform == Transform::irfft);
  Work work;
  work.name = name;
  work.points = static_cast<std::uint64_t>(call.rule.n);
  work.rows = kept.count();
  work.kept_inner = kept.length[1];
  work.scale = call.rule.scale;
  if (call.transform == Transform::irfft) work.in_flags |= kHermitian;
  if (call.transform == Transform::ifft || call.transform == Transform::irfft) {
    work.in_flags |= kSwapIn;
    work.out_flags |= kSwapOut;
  }
  const std::uint64_t m = work_points(call.rule.n);
  if (m == 0) {
    const Buffer roots =
        table(device, fmt::format("fft direct {}", work.points), [&] { return direct_table(work.points); });
    run_pass(device, {"direct", 0}, work, in, to, roots, work.in_flags | work.out_flags, work.points, work.scale);
    return;
  }
  const auto log_m = static_cast<std::uint32_t>(std::countr_zero(m));
  if (is_power_of_2(call.rule.n)) {
    run_stockham(device, work, log_m, in, to);
  } else {
    run_bluestein(device, work, log_m, in, to);
  }
}

/// In parts whose every array one binding shows.
void run_parts(const Call& call, const Tensor& x, const Tensor& out) {
  std::vector<std::size_t> kept_axes;
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i < out.rank() - (call.transform == Transform::irfft ? 0 : 1); ++i) {
    if (i == call.rule.axis) continue;
    kept_axes.push_back(i);
    rows *= static_cast<std::uint64_t>(out.shape()[i]);
  }
  const std::uint64_t limit = x.device().limits().max_storage_binding_size;
  if (!fits_binding(x) || !fits_binding(out) || rows * work_points(call.rule.n) * 8 > limit) {
    for (std::size_t axis : kept_axes) {
      const std::int64_t length = x.shape()[axis];
      if (length < 2) continue;
      const std::int64_t half = length / 2;
      run_parts(call, part_of(x, axis, 0, half), part_of(out, axis, 0, half));
      run_parts(call, part_of(x, axis, half, length - half), part_of(out, axis, half, length - half));
      return;
    }
  }
  // Complex numbers are read whole: the parts lie side by side, at even places.
  bool whole = true;
  if (call.transform != Transform::rfft) {
    whole = x.strides().back() == 1 && x.offset() % 2 == 0;
    for (std::size_t i = 0; i + 1 < x.rank(); ++i) whole = whole && (x.shape()[i] == 1 || x.strides()[i] % 2 == 0);
  }
  const auto kept = axis_pair(x, kept_axes, &out);
  if (!whole || !kept || (!fits_binding(x) && !x.is_contiguous())) {
    // Of a dense copy two axes are left, before the signal and behind it.
    run_parts(call, copy_of(x, to_string(call.transform)), out);
    return;
  }
  run_rows_of(call, x, out, *kept);
}

Tensor run_transform(Transform transform, const Tensor& x, const FftOptions& options) {
  const std::string_view name = to_string(transform);
  Device device = common_device(name, std::array{&x});
  const Call call{transform, transform_rule(transform, x.shape(), options)};
  const std::uint64_t limit = device.limits().max_storage_binding_size;
  const std::uint64_t m = static_cast<std::uint64_t>(call.rule.n) > limit ? limit : work_points(call.rule.n);
  if (m > limit / 8) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} points take arrays of {} bytes, over the device's limit of {} for one binding",
                            name, call.rule.n, m * 8, limit),
                "transform fewer points: a power of two takes the least");
  }
  const Tensor out = new_result(device, call.rule.shape, DType::f32);
  if (out.size() == 0) return out;
  if (x.size() == 0) return device.zeros(call.rule.shape, DType::f32);
  const std::int64_t used = transform == Transform::irfft ? call.rule.n / 2 + 1 : call.rule.n;
  const Tensor cut = part_of(x, call.rule.axis, 0, std::min(used, x.shape()[call.rule.axis]));
  run_parts(call, cut.dtype() == DType::f32 ? cut : cast(cut, DType::f32), out);
  return out;
}

}  // namespace

std::uint32_t fft_tile_log_columns(std::uint32_t log_radix) {
  // Enough columns that neighbours read 64 bytes or more together, 2^11 points at most and 2^9 at least.
  return std::clamp<std::uint32_t>(kLogTile - log_radix, 0, log_radix >= 5 ? 4 : 9 - log_radix);
}

std::uint32_t fft_tile_threads(std::uint32_t log_radix) {
  return 1u << (log_radix + fft_tile_log_columns(log_radix) - 3);
}

std::vector<std::uint32_t> fft_passes(bool cpu, std::uint32_t log_n) {
  if (cpu) return steps_of(log_n);
  if (log_n <= kLogTile) return {log_n};
  // Radices of 32 to 256: eight columns or more beside each other.
  const std::uint32_t count = (log_n + 7) / 8;
  std::vector<std::uint32_t> passes(count, log_n / count);
  for (std::uint32_t i = 0; i < log_n % count; ++i) ++passes[i];
  return passes;
}

std::string fft_key(const FftKernel& k) {
  return fmt::format("fft:{}:{}:{}:{}:{}", k.entry, k.log_radix, k.real_in, k.real_out, k.plain);
}

KernelOptions fft_options(const FftKernel& k) {
  KernelOptions options;
  options.source = fmt::format(
      "alias IN = {};\nalias OUT = {};\nfn widened(v: IN) -> vec2f {{ return {}; }}\nfn narrowed(v: vec2f) -> OUT {{ "
      "return {}; }}\nconst PLAIN = {};\n",
      k.real_in ? "f32" : "vec2f", k.real_out ? "f32" : "vec2f", k.real_in ? "vec2f(v, 0.0)" : "v",
      k.real_out ? "v.x" : "v", k.plain);
  options.source += wgsl::fft;
  options.source += k.entry == "direct"      ? std::string(kDirectText)
                    : k.entry == "butterfly" ? butterfly_text(k.log_radix)
                                             : tile_text(k.log_radix);
  options.entry_point = k.entry == "tile" ? "tile_pass" : std::string(k.entry);
  options.label = fmt::format("fft.{}", k.entry);
  return options;
}

}  // namespace ops

Tensor fft(const Tensor& x, const FftOptions& options) {
  return ops::run_transform(ops::Transform::fft, x, options);
}

Tensor ifft(const Tensor& x, const FftOptions& options) {
  return ops::run_transform(ops::Transform::ifft, x, options);
}

Tensor rfft(const Tensor& x, const FftOptions& options) {
  return ops::run_transform(ops::Transform::rfft, x, options);
}

Tensor irfft(const Tensor& x, const FftOptions& options) {
  return ops::run_transform(ops::Transform::irfft, x, options);
}

}  // namespace weft
