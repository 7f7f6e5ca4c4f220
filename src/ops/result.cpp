#include "ops/result.h"

#include <fmt/format.h>

#include <utility>

#include "ops/elementwise.h"
#include "ops/view_of.h"
#include "weft/error.h"
#include "weft/ops.h"

namespace weft {
namespace {

thread_local detail::ResultScope* innermost = nullptr;

}  // namespace

namespace detail {

ResultScope::ResultScope(const Tensor& out) : out_(out), outer_(std::exchange(innermost, this)) {
  try {
    out.device();  // throws for an empty handle
    if (!out.is_contiguous()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("into: the output of shape {} has strides {}, which leave gaps", to_string(out.shape()),
                              to_string(out.strides())),
                  "give a contiguous tensor");
    }
  } catch (...) {
    innermost = outer_;
    throw;
  }
}

ResultScope::~ResultScope() {
  innermost = outer_;
}

void ResultScope::finish(const Tensor& result) {
  given_ = true;  // what follows is no op of the caller's
  result.device();
  if (result.shape() != out_.shape() || result.dtype() != out_.dtype()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("into: the result is {} {}, and the output {} {}", to_string(result.dtype()),
                            to_string(result.shape()), to_string(out_.dtype()), to_string(out_.shape())),
                fmt::format("give an output of {} {}", to_string(result.dtype()), to_string(result.shape())));
  }
  if (ops::same_view(result, out_)) return;
  ops::ElementProgram copy;
  copy.run_into(out_, copy.input(result));
}

bool ResultScope::take(const Device& device, const Shape& shape, DType dtype, bool whole_buffer, Tensor& taken) {
  ResultScope* scope = innermost;
  if (scope == nullptr || scope->given_) return false;
  const Tensor& out = scope->out_;
  if (out.device().id() != device.id() || out.shape() != shape || out.dtype() != dtype) return false;
  if (whole_buffer && (out.offset() != 0 || out.buffer().size() != out.nbytes())) return false;
  scope->given_ = true;
  taken = out;
  return true;
}

}  // namespace detail

namespace ops {

Tensor new_result(const Device& device, const Shape& shape, DType dtype) {
  Tensor taken;
  if (detail::ResultScope::take(device, shape, dtype, true, taken)) return taken;
  return Device(device).empty(shape, dtype);
}

Tensor take_target(const Device& device, const Shape& shape, DType dtype) {
  Tensor taken;
  detail::ResultScope::take(device, shape, dtype, false, taken);
  return taken;
}

}  // namespace ops
}  // namespace weft
