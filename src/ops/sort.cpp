// Sorting: a first stage makes ordered runs of (key, place) pairs, later ones merge neighbours, and the last of them
// writes values or places. Of each run only as many elements are kept as the result has, so the first few of long rows
// cost little more than the first stage.
#include "ops/sort.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "base/checked.h"
#include "ops/infer.h"
#include "ops/infer_indexing.h"
#include "ops/launch.h"
#include "ops/result.h"
#include "ops/rows.h"
#include "ops/sort_kernels.h"
#include "weft/error.h"
#include "weft/indexing.h"

namespace weft {
namespace ops {
namespace {

constexpr std::uint32_t kCpuChunk = 64;  ///< elements that a thread merges: its search costs about as much as 10
constexpr std::uint32_t kGpuChunk = 8;

/// Ordered runs of all rows, one behind the other.
struct Pairs {
  Buffer keys, places;
  std::uint32_t length = 0;  ///< of a row
  std::uint32_t run = 0;
};

/// The length of a row of `runs` made of `length` elements, `keep` at most of each `run` of them.
std::uint32_t kept_length(std::uint32_t length, std::uint32_t run, std::uint32_t keep) {
  const std::uint32_t whole = (length - 1) / run;
  return whole * keep + std::min(keep, length - whole * run);
}

class Sort {
 public:
  Sort(const Sorting& wanted, const Device& device) : wanted_(wanted), device_(device), cpu_(cpu_kernels(device)) {}

  /// Sorts the rows of x into views of the same rows, in parts where a binding can't show all.
  void run(const Tensor& x, const Tensor& values, const Tensor& indices) {
    const std::vector<std::size_t> kept_axes = other_axes(x.rank(), std::array{wanted_.axis});
    if (!fits(x, values, indices)) {
      for (std::size_t axis : kept_axes) {
        const std::int64_t length = x.shape()[axis];
        if (length < 2) continue;
        const std::int64_t half = length / 2;
        const auto part = [&](const Tensor& t, std::int64_t start, std::int64_t count) {
          return t ? part_of(t, axis, start, count) : t;
        };
        run(part(x, 0, half), part(values, 0, half), part(indices, 0, half));
        run(part(x, half, length - half), part(values, half, length - half), part(indices, half, length - half));
        return;
      }
    }
    const Tensor& out = values ? values : indices;
    const auto kept = axis_pair(x, kept_axes, &out);
    if (!kept) {
      run(contiguous(x), values, indices);
      return;
    }
    sort(x, *kept, values, indices);
  }

  /// Throws Error{out_of_range} where not even a single row fits.
  void check(const Tensor& x, const Tensor& values, const Tensor& indices) const {
    const auto row_of = [&](const Tensor& t) {
      Tensor row = t;
      for (std::size_t i = 0; i < t.rank(); ++i) {
        if (i != wanted_.axis) row = part_of(row, i, 0, 1);
      }
      return row;
    };
    for (const Tensor& t : {x, values, indices}) {
      if (t) window(row_of(t), wanted_.op);
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(x.shape()[wanted_.axis]) * 4;
    const std::uint64_t limit = device_.limits().max_storage_binding_size;
    if (bytes <= limit) return;
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: the keys of a row of {} take {} bytes, over the device's limit of {} for one binding",
                            wanted_.op, x.shape()[wanted_.axis], bytes, limit),
                "sort slices of it");
  }

 private:
  bool fits(const Tensor& x, const Tensor& values, const Tensor& indices) const {
    const std::uint64_t limit = device_.limits().max_storage_binding_size;
    for (const Tensor& t : {x, values, indices}) {
      if (t && !fits_binding(t)) return false;
    }
    return static_cast<std::uint64_t>(x.size()) * 4 <= limit;
  }

  void sort(const Tensor& x, const AxisPair& kept, const Tensor& values, const Tensor& indices) {
    elements_ = window(x, wanted_.op);
    if (values) values_ = window(values, wanted_.op);
    if (indices) indices_ = window(indices, wanted_.op);
    const auto word = [](std::int64_t v) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v)); };
    const Tensor& out = values ? values : indices;
    SortParams p;
    p.rows = static_cast<std::uint32_t>(kept.count());
    p.x_offset = elements_.offset;
    p.kept_inner = static_cast<std::uint32_t>(kept.length[1]);
    p.stride0 = word(kept.stride[0]);
    p.stride1 = word(kept.stride[1]);
    p.axis_stride = word(x.strides()[wanted_.axis]);
    p.out0 = word(kept.out_stride[0]);
    p.out1 = word(kept.out_stride[1]);
    p.out_axis = word(out.strides()[wanted_.axis]);
    p.values_offset = values_.offset;
    p.indices_offset = indices_.offset;

    const auto keep = static_cast<std::uint32_t>(wanted_.keep);
    const auto length = static_cast<std::uint32_t>(x.shape()[wanted_.axis]);
    SortStage stage;
    stage.half = x.dtype() == DType::f16;
    stage.by_group = !cpu_;
    p.length = length;
    p.run = !cpu_ ? std::min(std::bit_ceil(length), kGroupRun) : length <= kShortRun ? kShortRun : kThreadRun;
    if (cpu_) stage.run = p.run;
    p.keep = std::min(keep, p.run);
    p.mode_or_chunk = (wanted_.descending ? kDescending : 0) | (is_float(x.dtype()) ? kReal : 0) |
                      (x.dtype() == DType::i32 ? kSigned : 0);
    Pairs runs = launch_stage(stage, p, length <= p.run, p.run);
    while (runs.keys) {
      p.length = runs.length;
      p.run = runs.run;
      p.keep = std::min(keep, 2 * p.run);
      stage.first = false;
      // Short runs would leave most of a workgroup idle.
      stage.by_group = !cpu_ && p.keep >= kGroupTile;
      p.mode_or_chunk = cpu_ ? kCpuChunk : kGpuChunk;
      runs = launch_stage(stage, p, runs.length <= 2 * p.run, 2 * p.run, &runs);
    }
  }

  /// A stage that makes a run of each `span` elements; the last one writes the results, and gives no runs.
  Pairs launch_stage(SortStage stage, SortParams p, bool last, std::uint32_t span, const Pairs* before = nullptr) {
    Pairs made;
    stage.sink = !last              ? SortSink::runs
                 : !wanted_.indices ? SortSink::values
                 : !wanted_.values  ? SortSink::indices
                                    : SortSink::both;
    std::vector<BindingRange> bound;
    if (stage.first || stage.gives_values()) bound.push_back(elements_.range);
    if (stage.first && stage.half && stage.gives_values()) bound.push_back(elements_.range);
    if (before != nullptr) {
      bound.emplace_back(before->keys);
      bound.emplace_back(before->places);
    }
    if (last) {
      if (wanted_.values) bound.push_back(values_.range);
      if (wanted_.indices) bound.push_back(indices_.range);
    } else {
      made.length = p.row_out = kept_length(p.length, span, p.keep);
      made.run = p.keep;
      const std::size_t bytes = std::size_t{p.rows} * made.length * 4;
      made.keys = device_.alloc(bytes);
      made.places = device_.alloc(bytes);
      bound.emplace_back(made.keys);
      bound.emplace_back(made.places);
    }
    const std::uint64_t spans = std::uint64_t{p.rows} * ceil_div(p.length, span);
    const std::uint64_t chunk = stage.by_group ? kGroupTile : p.mode_or_chunk;
    const Kernel kernel =
        dispatch::library_kernel(state_of(device_), sort_key(stage), [&] { return sort_options(stage); });
    Grid grid;
    if (stage.by_group) {
      grid = fold_groups(stage.first ? ceil_div(spans, kGroupRun / span) : spans * ceil_div(p.keep, chunk), wanted_.op);
    } else {
      grid = kernel.grid(grid_for(stage.first ? spans : spans * ceil_div(p.keep, chunk)));
    }
    launch(device_, kernel, bound, std::as_bytes(std::span<const SortParams, 1>(&p, 1)), grid);
    return made;
  }

  const Sorting& wanted_;
  Device device_;
  bool cpu_;
  Window elements_, values_, indices_;
};

}  // namespace

Sorted sort_rows(const Tensor& x, const Sorting& wanted) {
  const Device& device = x.device();
  Shape shape = x.shape();
  shape[wanted.axis] = wanted.keep;
  Sorted out;
  if (x.shape()[wanted.axis] > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: rows of {} elements, over the 2147483647 that an index can name", wanted.op,
                            x.shape()[wanted.axis]),
                "sort slices of it");
  }
  const bool flags = x.dtype() == DType::bool_;
  if (wanted.values) out.values = new_result(device, shape, flags ? DType::u32 : x.dtype());
  if (wanted.indices) out.indices = new_result(device, shape, DType::i32);
  if (element_count(shape) > 0) {
    Sort sort(wanted, device);
    sort.check(x, out.values, out.indices);
    // Bools share words, which no two threads may write: they are sorted as numbers.
    sort.run(flags ? cast(x, DType::u32) : x, out.values, out.indices);
  }
  if (flags && wanted.values) out.values = cast(out.values, DType::bool_);
  return out;
}

}  // namespace ops

Tensor sort(const Tensor& x, const SortOptions& options) {
  ops::common_device("sort", std::array{&x});
  const std::size_t axis = ops::normalize_axis("sort", options.axis, x.shape());
  return ops::sort_rows(x, {"sort", axis, x.shape()[axis], options.descending, true, false}).values;
}

Tensor argsort(const Tensor& x, const SortOptions& options) {
  ops::common_device("argsort", std::array{&x});
  const std::size_t axis = ops::normalize_axis("argsort", options.axis, x.shape());
  return ops::sort_rows(x, {"argsort", axis, x.shape()[axis], options.descending, false, true}).indices;
}

}  // namespace weft
