// Random tensors of any dtype and layout, with their values on the host; for tests of ops against models.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "weft/device.h"
#include "weft/tensor.h"

namespace weft::testing {

/// All that the device has.
inline std::vector<DType> dtypes_of(const Device& device) {
  std::vector<DType> out{DType::bool_, DType::i32, DType::u32, DType::f32};
  if (device.features().f16) out.push_back(DType::f16);
  return out;
}

using Index = std::vector<std::int64_t>;

/// Calls `visit` with the index of each element, in row-major order.
inline void each_index(const Shape& shape, const std::function<void(const Index&)>& visit) {
  if (element_count(shape) == 0) return;
  Index at(shape.rank(), 0);
  for (;;) {
    visit(at);
    std::size_t axis = shape.rank();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

/// Where it is in row-major order.
inline std::size_t flat(const Shape& shape, const Index& at) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < shape.rank(); ++i) out = out * shape[i] + at[i];
  return static_cast<std::size_t>(out);
}

struct Strided {
  Tensor tensor;
  std::vector<double> values;  ///< its elements in row-major order
};

inline std::vector<double> to_doubles(const Tensor& t) {
  std::vector<double> out;
  switch (t.dtype()) {
    case DType::f32:
      for (float v : t.to_host<float>()) out.push_back(v);
      break;
    case DType::f16:
      for (float16 v : t.to_host<float16>()) out.push_back(static_cast<float>(v));
      break;
    case DType::i32:
      for (std::int32_t v : t.to_host<std::int32_t>()) out.push_back(v);
      break;
    case DType::u32:
      for (std::uint32_t v : t.to_host<std::uint32_t>()) out.push_back(v);
      break;
    case DType::bool_:
      for (bool v : t.to_host<bool>()) out.push_back(v);
      break;
  }
  return out;
}

/// Small whole and half numbers, so that sums of a few thousand are exact, and products neither vanish nor overflow.
inline std::vector<double> random_values(std::mt19937& random, std::size_t count, DType dtype) {
  std::vector<double> out(count);
  for (double& v : out) {
    const auto r = static_cast<int>(random() % 17);
    switch (dtype) {
      case DType::bool_: v = r % 3 != 0; break;
      case DType::u32: v = r == 16 ? 4000000000.0 : r; break;
      case DType::i32: v = r == 16 ? -2000000000.0 : r - 8; break;
      default: v = r == 0 ? 0.0 : (r % 2 == 0 ? 1 : -1) * (1.0 + r / 32.0); break;
    }
  }
  return out;
}

inline std::vector<std::byte> to_bytes(const std::vector<double>& values, DType dtype) {
  std::vector<std::byte> out(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto v) { std::memcpy(out.data() + i * sizeof v, &v, sizeof v); };
    switch (dtype) {
      case DType::f32: put(static_cast<float>(values[i])); break;
      case DType::f16: put(float16(static_cast<float>(values[i]))); break;
      case DType::i32: put(static_cast<std::int32_t>(values[i])); break;
      case DType::u32: put(static_cast<std::uint32_t>(values[i])); break;
      case DType::bool_: put(static_cast<std::uint8_t>(values[i] != 0)); break;
    }
  }
  return out;
}

/// As the device holds it: f16 and f32 round what the host draws.
inline double stored(double v, DType dtype) {
  if (dtype == DType::f16) return static_cast<float>(float16(static_cast<float>(v)));
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(v)) : v;
}

inline Strided dense(Device& device, std::mt19937& random, const Shape& shape, DType dtype) {
  Strided out;
  out.values = random_values(random, static_cast<std::size_t>(element_count(shape)), dtype);
  out.tensor = device.upload_array(to_bytes(out.values, dtype), shape, dtype);
  for (double& v : out.values) v = stored(v, dtype);
  return out;
}

inline Shape random_shape(std::mt19937& random, std::size_t max_rank) {
  Shape shape;
  const std::size_t rank = random() % (max_rank + 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, rank < 3 ? 300 : 12, rank < 2 ? 5000 : 9};
    shape.push_back(lengths[random() % std::size(lengths)]);
  }
  return shape;
}

/// A view of the shape: axes permuted, reversed, strided, broadcast, from an odd offset, each with some chance.
inline Strided random_strided(Device& device, std::mt19937& random, const Shape& shape, DType dtype) {
  if (random() % 3 == 0) return dense(device, random, shape, dtype);
  const std::size_t rank = shape.rank();
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = i;
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Strides strides;
  for (std::size_t i = 0; i < rank; ++i) strides.push_back(0);
  std::int64_t span = 1;
  std::int64_t offset = static_cast<std::int64_t>(random() % 6);
  for (std::size_t i = rank; i-- > 0;) {
    const std::size_t axis = order[i];
    const auto kind = random() % 8;
    if (kind == 0) continue;  // broadcast
    const std::int64_t step = kind == 1 ? 2 : 1;
    const std::int64_t stride = span * step;
    span += (shape[axis] - 1) * stride;
    if (kind == 2) {
      strides[axis] = -stride;
      offset += (shape[axis] - 1) * stride;
    } else {
      strides[axis] = stride;
    }
    span += kind == 3 ? 3 : 0;  // padding between rows
  }
  // The longest reach from the offset either way stays inside.
  std::int64_t high = offset;
  for (std::size_t i = 0; i < rank; ++i) {
    if (strides[i] > 0) high += (shape[i] - 1) * strides[i];
  }
  Strided storage = dense(device, random, {high + 1}, dtype);
  Strided out;
  out.tensor = Tensor(device, storage.tensor.buffer(), shape, strides, offset, dtype);
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t n = element_count(shape); n > 0; --n) {
    std::int64_t at = offset;
    for (std::size_t i = 0; i < rank; ++i) at += index[i] * strides[i];
    out.values.push_back(storage.values[static_cast<std::size_t>(at)]);
    for (std::size_t i = rank; i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
  return out;
}

}  // namespace weft::testing
