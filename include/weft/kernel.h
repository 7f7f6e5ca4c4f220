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
#include "weft/params.h"

namespace weft {

class Device;
class Stream;
class Tensor;

namespace detail {
struct KernelState;
struct PendingKernelState;
}  // namespace detail

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

/// One thread an element of the output: `grid_for` the runtime array of the first written binding, as bound in the
/// call. A kernel that writes none of these can't be called so: Error{invalid_argument}.
struct GridAuto {};
inline constexpr GridAuto kAutoGrid;

/// A constant of the generated prelude: `const NAME: TYPE = VALUE;` or, with type "alias", `alias NAME = VALUE;`. Each
/// name once.
struct PreludeConstant {
  std::string name;
  std::string type;   ///< "u32", "i32", "f32", "bool", or "alias"
  std::string value;  ///< WGSL text
};

/// A pipeline-overridable constant: the value, finite, for an `override NAME` in the source, or for `@id(N)` when the
/// name is N.
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
  /// `struct Params`; padding behind its last member may be left out, and all of it where the entry point does not use
  /// `params`. Checks on every call: owners, usages, sizes, aliasing of a written binding, grid limits. Throws Error
  /// before anything is recorded.
  ///
  /// A struct as parameters is checked member by member (weft/params.h), once for each kernel and type: where `struct
  /// Params` has a scalar, the C++ struct must have the same kind of scalar at the same byte; a vector may come as a
  /// std::array, a C array, a struct of equal members, or as scalars. Of a type that can't be looked into, such as a
  /// class with constructors, only the size is checked.
  void operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                  Grid grid) const;
  void operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                  GridFor grid) const;
  void operator()(const Stream& stream, std::span<const NamedBinding> bindings, std::span<const std::byte> params,
                  GridAuto grid) const;
  template <class P, class G>
    requires(std::is_trivially_copyable_v<P> && !std::is_convertible_v<const P&, std::span<const std::byte>>)
  void operator()(const Stream& stream, std::initializer_list<NamedBinding> bindings, const P& params, G grid) const {
    check_params(param_struct(params));
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

  /// The same with the grid in device memory: three u32 (x, y, z) at byte `offset` of `args`, read when the dispatch
  /// runs, so that an earlier one can write them. `offset` is a multiple of 4; `args` has Usage::indirect and
  /// Usage::storage, and is not written by this dispatch. A grid over the device's limits runs nothing. Can't be
  /// captured into a graph.
  void dispatch_indirect(const Stream& stream, std::span<const BindingRange> bindings,
                         std::span<const std::byte> params, const Buffer& args, std::size_t offset = 0) const;
  void dispatch_indirect(const Stream& stream, std::span<const NamedBinding> bindings,
                         std::span<const std::byte> params, const Buffer& args, std::size_t offset = 0) const;
  template <class P>
    requires(std::is_trivially_copyable_v<P> && !std::is_convertible_v<const P&, std::span<const std::byte>>)
  void dispatch_indirect(const Stream& stream, std::initializer_list<NamedBinding> bindings, const P& params,
                         const Buffer& args, std::size_t offset = 0) const {
    check_params(param_struct(params));
    dispatch_indirect(stream, std::span<const NamedBinding>(bindings.begin(), bindings.size()),
                      std::as_bytes(std::span<const P, 1>(&params, 1)), args, offset);
  }
  void dispatch_indirect(const Stream& stream, std::initializer_list<NamedBinding> bindings, const Buffer& args,
                         std::size_t offset = 0) const {
    dispatch_indirect(stream, std::span<const NamedBinding>(bindings.begin(), bindings.size()),
                      std::span<const std::byte>(), args, offset);
  }

  /// The grid that `grid_for(n)` means for this kernel.
  Grid grid(GridFor n) const;

  /// For Weft's own layers.
  const std::shared_ptr<detail::KernelState>& state() const noexcept { return state_; }
  explicit Kernel(std::shared_ptr<detail::KernelState> state) noexcept : state_(std::move(state)) {}

 private:
  /// Compares a C++ struct with `struct Params`, once a kernel and type. Throws Error{invalid_argument} naming fields.
  void check_params(const ParamStruct& given) const;

  std::shared_ptr<detail::KernelState> state_;
};

/// A kernel on its way (Device::prepare). Copies share it; any thread may use it. Dropping it stops nothing: the
/// pipeline still lands in the device's cache.
class PendingKernel {
 public:
  PendingKernel() = default;

  /// True once get() won't block.
  bool ready() const;
  /// Blocks until the kernel is compiled. Throws what Device::kernel would have thrown, each time;
  /// Error{invalid_argument} when the last handle of the device went before its turn came.
  Kernel get() const;

  /// For Weft's own layers.
  explicit PendingKernel(std::shared_ptr<detail::PendingKernelState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::PendingKernelState> state_;
};

}  // namespace weft
