// Attention in double on the host, and random cases of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ops/infer_attention.h"
#include "unit/strided.h"
#include "unit/test_device.h"
#include "weft/nn.h"

namespace weft::testing {

constexpr double kUnseenBias = -std::numeric_limits<double>::infinity();

/// Everything on the host; empty vectors for what is not given.
struct Model {
  ops::AttentionShape shape;
  std::vector<double> q, k, v;
  std::vector<double> bias;  ///< one for each score; -inf: not seen
  std::vector<std::int64_t> lengths;
  double scale = 1, softcap = 0;
  bool causal = false;

  std::vector<double> run() const {
    const ops::AttentionShape& s = shape;
    std::vector<double> out;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t length = lengths.empty() ? s.keys : std::clamp<std::int64_t>(lengths[b], 0, s.keys);
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t kv = b * s.kv_heads + h / (s.heads / s.kv_heads);
        for (std::int64_t i = 0; i < s.queries; ++i) {
          const std::int64_t limit = causal ? std::clamp<std::int64_t>(i + 1 + length - s.queries, 0, length) : length;
          std::vector<double> scores(static_cast<std::size_t>(s.keys), kUnseenBias);
          double high = kUnseenBias;
          for (std::int64_t j = 0; j < limit; ++j) {
            const double add =
                bias.empty() ? 0 : bias[static_cast<std::size_t>(((b * s.heads + h) * s.queries + i) * s.keys + j)];
            if (add == kUnseenBias) continue;
            double score = 0;
            for (std::int64_t d = 0; d < s.dim; ++d) {
              score += q[static_cast<std::size_t>(((b * s.heads + h) * s.queries + i) * s.dim + d)] *
                       k[static_cast<std::size_t>((kv * s.keys + j) * s.dim + d)];
            }
            score *= scale;
            if (softcap > 0) score = softcap * std::tanh(score / softcap);
            scores[static_cast<std::size_t>(j)] = score + add;
            if (std::isnan(score) || score + add > high) high = score + add;
          }
          double total = 0;
          for (double& score : scores) {
            score = score == kUnseenBias ? kUnseenBias : std::exp(score - high);
            if (score != kUnseenBias) total += score;
          }
          for (std::int64_t c = 0; c < s.value_dim; ++c) {
            double sum = 0;
            for (std::int64_t j = 0; j < s.keys; ++j) {
              const double weight = scores[static_cast<std::size_t>(j)];
              if (weight == kUnseenBias) continue;
              sum += weight * v[static_cast<std::size_t>((kv * s.keys + j) * s.value_dim + c)];
            }
            out.push_back(total == 0 ? 0 : sum / total);
          }
        }
      }
    }
    return out;
  }
};

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], expected[i]) << "at " << i;
    } else if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i] << " for NaN";
    } else {
      ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "at " << i;
    }
  }
}

struct Given {
  Model model;
  Tensor q, k, v;
  AttentionOptions options;
};

inline Given random_case(std::mt19937& random, const ops::AttentionShape& s, DType dtype, bool strided) {
  Given g;
  g.model.shape = s;
  const auto tensor = [&](const Shape& shape) {
    return strided ? random_strided(test_device(), random, shape, dtype) : dense(test_device(), random, shape, dtype);
  };
  const Strided q = tensor({s.batch, s.heads, s.queries, s.dim});
  const Strided k = tensor({s.batch, s.kv_heads, s.keys, s.dim});
  const Strided v = tensor({s.batch, s.kv_heads, s.keys, s.value_dim});
  g.q = q.tensor;
  g.k = k.tensor;
  g.v = v.tensor;
  g.model.q = q.values;
  g.model.k = k.values;
  g.model.v = v.values;
  g.model.scale = 1 / std::sqrt(static_cast<double>(s.dim));
  return g;
}

/// A mask of a random dtype that broadcasts over random axes.
inline void add_mask(std::mt19937& random, Given& g) {
  const Shape scores = g.model.shape.scores();
  Shape shape = scores;
  for (std::size_t i = 0; i < 4; ++i) shape[i] = random() % 3 == 0 ? 1 : scores[i];
  std::vector<DType> kinds{DType::bool_, DType::f32};
  if (test_device().features().f16) kinds.push_back(DType::f16);
  const DType dtype = kinds[random() % kinds.size()];
  const Strided mask = random_strided(test_device(), random, shape, dtype);
  Tensor given = mask.tensor;
  std::vector<double> values = mask.values;
  if (dtype == DType::f32 && random() % 2 == 0) {
    std::vector<float> with(values.size());
    for (std::size_t i = 0; i < with.size(); ++i) {
      with[i] = random() % 3 == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(values[i]);
      values[i] = with[i];
    }
    given = test_device().upload<float>(with, shape);
  }
  g.options.mask = given;
  for (std::int64_t b = 0; b < scores[0]; ++b) {
    for (std::int64_t h = 0; h < scores[1]; ++h) {
      for (std::int64_t i = 0; i < scores[2]; ++i) {
        for (std::int64_t j = 0; j < scores[3]; ++j) {
          const std::int64_t at =
              ((b % shape[0] * shape[1] + h % shape[1]) * shape[2] + i % shape[2]) * shape[3] + j % shape[3];
          const double value = values[static_cast<std::size_t>(at)];
          g.model.bias.push_back(dtype == DType::bool_ ? (value != 0 ? 0 : kUnseenBias) : value);
        }
      }
    }
  }
}

inline void add_lengths(std::mt19937& random, Given& g) {
  const ops::AttentionShape& s = g.model.shape;
  std::vector<std::int32_t> lengths;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    lengths.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(s.keys + 3)) - 1);
    g.model.lengths.push_back(lengths.back());
  }
  g.options.lengths = test_device().upload<std::int32_t>(lengths, {s.batch});
}

inline void expect_model(const Given& g) {
  const ops::AttentionShape& s = g.model.shape;
  const DType dtype = g.q.dtype();
  const Tensor out = attention(g.q, g.k, g.v, g.options);
  ASSERT_EQ(out.shape(), s.result());
  ASSERT_EQ(out.dtype(), dtype);
  expect_near(to_doubles(out), g.model.run(), dtype == DType::f16 ? 4e-3 : 2e-5);
}

}  // namespace weft::testing
