// C++ structs of parameters against the `struct Params` of a kernel.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>

#include "weft/params.h"

namespace weft::detail {
struct KernelState;
}

namespace weft::dispatch {

/// The C++ types that a kernel has been checked against, the latest few. Lock-free; a type that fell out, or that a
/// race lost, is checked again.
class CheckedParams {
 public:
  bool contains(const ParamStruct* type) const noexcept {
    for (const auto& t : types_) {
      if (t.load(std::memory_order_relaxed) == type) return true;
    }
    return false;
  }
  void add(const ParamStruct* type) noexcept {
    types_[next_.fetch_add(1, std::memory_order_relaxed) % types_.size()].store(type, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<const ParamStruct*>, 4> types_{};
  std::atomic<std::size_t> next_{0};
};

/// Throws Error{invalid_argument}, naming both members, where the two differ. A type that is not known passes: its size
/// is checked with each call.
void check_params(const detail::KernelState& kernel, const ParamStruct& given);

/// "a: f32, n: u32".
std::string params_text(const detail::KernelState& kernel);

}  // namespace weft::dispatch
