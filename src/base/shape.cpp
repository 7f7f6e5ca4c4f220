#include "weft/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "weft/error.h"

namespace weft {

Shape::Shape(std::initializer_list<std::int64_t> lengths)
    : Shape(std::span<const std::int64_t>(lengths.begin(), lengths.size())) {}

Shape::Shape(std::span<const std::int64_t> lengths) {
  for (std::int64_t v : lengths) push_back(v);
}

void Shape::push_back(std::int64_t v) {
  if (rank_ == kMaxRank) {
    throw Error(ErrorCode::invalid_argument, fmt::format("an array of more than {} axes", kMaxRank),
                fmt::format("reshape to at most {} axes", kMaxRank));
  }
  data_[rank_++] = v;
}

void Shape::insert(std::size_t at, std::int64_t v) {
  push_back(v);
  std::rotate(data_.begin() + at, data_.begin() + rank_ - 1, data_.begin() + rank_);
}

void Shape::erase(std::size_t at) noexcept {
  std::copy(data_.begin() + at + 1, data_.begin() + rank_, data_.begin() + at);
  --rank_;
}

bool Shape::operator==(const Shape& other) const noexcept {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t n = 1;
  bool empty = false;
  for (std::int64_t v : shape) {
    if (v < 0) {
      throw Error(ErrorCode::out_of_range, fmt::format("shape {} has a negative length", to_string(shape)),
                  "use lengths of 0 or more");
    }
    empty = empty || v == 0;
  }
  if (empty) return 0;
  for (std::int64_t v : shape) {
    if (__builtin_mul_overflow(n, v, &n)) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("shape {} has more than {} elements", to_string(shape), INT64_MAX),
                  "split the array into smaller ones");
    }
  }
  return n;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  std::int64_t step = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    strides[i] = step;
    // Only an empty array can wrap here, and none of its strides is ever used.
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[i], 1), &step)) step = 0;
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  Shape out;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i + a.rank() < rank ? 1 : a[i + a.rank() - rank];
    const std::int64_t y = i + b.rank() < rank ? 1 : b[i + b.rank() - rank];
    if (x != y && x != 1 && y != 1) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shapes {} and {} don't broadcast: lengths {} and {} on axis {} differ", to_string(a),
                              to_string(b), x, y, i),
                  "make the lengths equal, or one of them 1");
    }
    out.push_back(x == 1 ? y : x);
  }
  return out;
}

std::string to_string(const Shape& shape) {
  if (shape.rank() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace weft
