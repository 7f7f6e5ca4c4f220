#include "ops/tunable.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

#include "ops/attention_tuning.h"
#include "ops/conv_tuning.h"
#include "ops/matmul_tuning.h"
#include "ops/reduce_tuning.h"
#include "ops/rows_tuning.h"
#include "weft/error.h"
#include "weft/random.h"

namespace weft::ops {

std::span<const Tunable* const> tunables() {
  // Convolutions last: they have the most plans, and a short budget should reach every op.
  static const std::array<const Tunable*, 6> all{&matmul_tunable(), &attention_tunable(),   &rows_tunable(),
                                                 &reduce_tunable(), &matmul_int8_tunable(), &conv_tunable()};
  return all;
}

std::optional<std::vector<std::int64_t>> lengths_of(std::string_view text) {
  std::vector<std::int64_t> lengths;
  for (;;) {
    std::int64_t& length = lengths.emplace_back();
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (failure != std::errc() || length < 1 || length > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return lengths;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

RowsSample rows_sample(const std::string& shape, const Tunable& tunable) {
  const bool turned = shape.ends_with('t');
  const auto n = lengths_of(std::string_view(shape).substr(0, shape.size() - (turned ? 1 : 0)));
  if (!n || n->size() != 2) throw bad_shape(shape, tunable);
  return turned ? RowsSample{{(*n)[1], (*n)[0]}, 0} : RowsSample{{(*n)[0], (*n)[1]}, 1};
}

Error bad_shape(std::string_view shape, const Tunable& tunable) {
  return Error(ErrorCode::invalid_argument,
               fmt::format("tune: '{}' is no shape of {}", shape.substr(0, 60), tunable.name),
               fmt::format("write {}", tunable.syntax));
}

Tensor sample_operand(const Device& device, const Shape& shape, DType dtype) {
  Random random{.seed = 1};
  return random_uniform(device, shape, random, -1, 1, dtype);
}

}  // namespace weft::ops
