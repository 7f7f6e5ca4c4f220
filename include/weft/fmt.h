// weft/fmt.h - {fmt} formatters for Weft's types. Include it beside <fmt/format.h>; Weft itself does not ask you to
// have it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "weft/buffer.h"
#include "weft/dtype.h"
#include "weft/shape.h"

template <>
struct fmt::formatter<weft::Buffer> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const weft::Buffer& buffer, Context& context) const {
    return fmt::formatter<std::string_view>::format(buffer.debug_string(), context);
  }
};

template <>
struct fmt::formatter<weft::BufferRef> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const weft::BufferRef& ref, Context& context) const {
    return fmt::formatter<std::string_view>::format(weft::to_string(ref), context);
  }
};

template <>
struct fmt::formatter<weft::Usage> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(weft::Usage usage, Context& context) const {
    return fmt::formatter<std::string_view>::format(weft::to_string(usage), context);
  }
};

template <>
struct fmt::formatter<weft::DType> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(weft::DType dtype, Context& context) const {
    return fmt::formatter<std::string_view>::format(weft::to_string(dtype), context);
  }
};

template <>
struct fmt::formatter<weft::Shape> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const weft::Shape& shape, Context& context) const {
    return fmt::formatter<std::string_view>::format(weft::to_string(shape), context);
  }
};
