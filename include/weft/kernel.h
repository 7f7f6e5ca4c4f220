// weft/kernel.h - a user's (or the library's) WGSL, compiled and ready to dispatch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/buffer.h"
#include "weft/dtype.h"

namespace weft {

class Device;
class Stream;
class Tensor;

namespace detail {
struct KernelState;
}

/// Workgroups to launch on each axis.
struct Grid {
  std::uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Grid&) const = default;
};

/// One thread an element: becomes ceil(n / workgroup size) groups, folded into two dimensions past 32,768 so that
/// `linear_index(id)` stays right. Use as the grid of a call.
struct GridFor {
  std::uint64_t elements;
};
constexpr GridFor grid_for(std::uint64_t elements) noexcept {
  return {elements};
}

/// A constant of the generated prelude: `const NAME: TYPE = VALUE;` or, with type "alias", `alias NAME = VALUE;`.
struct PreludeConstant {
  std::string name;
  std::string type;   ///< "u32", "i32", "f32", "bool", or "alias"
  std::string value;  ///< WGSL text
};

/// A pipeline-overridable constant: the value for an `override NAME` in the source.
struct OverrideValue {
  std::string name;
  double value;
};

/// What to compile.
///
/// WGSL is its own template language: constants and aliases come in front of the source as a prelude. The runtime also
/// declares `params` (see Kernel), `linear_index(id)` (global invocation id to flat index, right past 65,535 groups)
/// and enables the features the device has that the source asks for.
struct KernelOptions {
  std::string source;            ///< WGSL
  std::filesystem::path file{};  ///< read when `source` is empty; also named in errors
  std::string entry_point = "main";
  std::string label{};  ///< named in errors, traces and statistics
  std::vector<PreludeConstant> constants{};
  std::vector<OverrideValue> overrides{};
};

/// One binding declared in the source, as reflected: `@group(0) @binding(N) var<storage, access> name: type`.
struct BindingInfo {
  std::string name;
  std::uint32_t binding = 0;
  bool writable = false;
  bool uniform = false;
  std::string type;            ///< "array<f32>", as written, blanks removed
  std::uint64_t min_size = 0;  ///< bytes that the type needs at least: fixed part, or one element of a runtime array
  std::uint32_t element_size = 0;  ///< stride of the runtime array, 0 when there is none or it is not known
};

/// One member of `struct Params`.
struct ParamInfo {
  std::string name;
  std::string type;
  std::uint32_t offset = 0;  ///< bytes
  std::uint32_t size = 0;    ///< bytes
};

/// A range of a buffer, bound to a kernel. Size 0 means «to the end».
struct BindingRange {
  Buffer buffer;
  std::uint64_t offset = 0;    ///< bytes; a multiple of Limits::min_storage_offset_alignment
  std::uint64_t size = 0;      ///< bytes; what `arrayLength` sees is this, rounded up to a multiple of 4
  std::optional<DType> dtype;  ///< when known, checked against the declared element type

  BindingRange() = default;
  BindingRange(Buffer b, std::uint64_t off = 0, std::uint64_t n = 0) : buffer(std::move(b)), offset(off), size(n) {}
  /// The elements of a tensor. Throws Error{invalid_argument} unless they are contiguous and start at an aligned
  /// offset.
  BindingRange(const Tensor& t);
};

/// A binding by the name that the source gives it.
struct NamedBinding {
  std::string_view name;
  BindingRange range;
};

/// A compiled kernel. Copies share it; any thread may dispatch it. Lives on its own: the device's pipeline cache may
/// evict the entry while a Kernel still holds the pipeline.
///
/// Parameters: when the source declares `struct Params { ... }` (scalars, vectors and matrices of f32, i32, u32, f16),
/// the runtime adds the variable `params`, as an immediate or a uniform, whatever the device has. The bytes travel with
/// the dispatch, so two dispatches of one batch never share them.
class Kernel {
 public:
  Kernel() = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  const std::string& label() const;
  const std::vector<BindingInfo>& bindings() const;
  const std::vector<ParamInfo>& params() const;
  std::uint32_t params_size() const;  ///< bytes; 0 without `struct Params`
  std::array<std::uint32_t, 3> workgroup_size() const;

  /// Records a dispatch. Bindings by name, in any order; each declared one exactly once. `params` must have the size of
  /// `struct Params` (up to 15 bytes less are padded with zeros). Checks on every call: owners, usages, sizes, aliasing
  /// of a written binding, grid limits. Throws Error before anything is recorded.
  void operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                  Grid grid) const;
  void operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                  GridFor grid) const;
  template <class P, class G>
    requires(std::is_trivially_copyable_v<P> && !std::is_convertible_v<const P&, std::span<const std::byte>>)
  void operator()(const Stream& stream, std::initializer_list<NamedBinding> bindings, const P& params, G grid) const {
    (*this)(stream, std::span<const NamedBinding>(bindings.begin(), bindings.size()),
            std::as_bytes(std::span<const P, 1>(&params, 1)), grid);
  }
  template <class G>
  void operator()(const Stream& stream, std::initializer_list<NamedBinding> bindings, G grid) const {
    (*this)(stream, std::span<const NamedBinding>(bindings.begin(), bindings.size()), std::span<const std::byte>(),
            grid);
  }

  /// The hot path: bindings in the order of `bindings()`, no names looked up, no heap allocation when warm.
  void dispatch(const Stream& stream, std::span<const BindingRange> bindings, std::span<const std::byte> params,
                Grid grid) const;

  /// The grid that `grid_for(n)` means for this kernel.
  Grid grid(GridFor n) const;

  /// For Weft's own layers.
  const std::shared_ptr<detail::KernelState>& state() const noexcept { return state_; }
  explicit Kernel(std::shared_ptr<detail::KernelState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::KernelState> state_;
};

}  // namespace weft
