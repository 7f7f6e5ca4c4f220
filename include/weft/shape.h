// weft/shape.h - lengths and strides of an array's axes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace weft {

/// A tensor has at most this many axes.
inline constexpr std::size_t kMaxRank = 8;

/// Up to kMaxRank signed 64-bit numbers held inline: the lengths of an array's axes, outermost first. Also used for
/// strides (in elements) and for lists of axes. Throws Error{invalid_argument} past kMaxRank entries.
class Shape {
 public:
  Shape() = default;  ///< rank 0
  Shape(std::initializer_list<std::int64_t> lengths);
  explicit Shape(std::span<const std::int64_t> lengths);

  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return rank_; }
  bool empty() const noexcept { return rank_ == 0; }
  std::int64_t& operator[](std::size_t i) noexcept { return data_[i]; }
  std::int64_t operator[](std::size_t i) const noexcept { return data_[i]; }
  std::int64_t back() const noexcept { return data_[rank_ - 1]; }
  const std::int64_t* begin() const noexcept { return data_.data(); }
  const std::int64_t* end() const noexcept { return data_.data() + rank_; }
  std::int64_t* begin() noexcept { return data_.data(); }
  std::int64_t* end() noexcept { return data_.data() + rank_; }
  void push_back(std::int64_t v);
  void insert(std::size_t at, std::int64_t v);
  void erase(std::size_t at) noexcept;

  bool operator==(const Shape& other) const noexcept;

 private:
  std::array<std::int64_t, kMaxRank> data_{};
  std::size_t rank_ = 0;
};

using Strides = Shape;

/// Number of elements; 1 for rank 0. Throws Error{out_of_range} when a length is negative or the product does not fit
/// a signed 64-bit number.
std::int64_t element_count(const Shape& shape);

/// Row-major strides, in elements, of a dense array of this shape.
Strides contiguous_strides(const Shape& shape);

/// numpy's broadcasting of two shapes. Throws Error{invalid_argument} that names both when they do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b);

/// As Python prints a tuple: "()", "(3,)", "(2, 3)".
std::string to_string(const Shape& shape);

}  // namespace weft
