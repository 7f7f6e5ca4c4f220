// weft/random.h - random numbers, the same on every device for the same seed.
#pragma once

#include <cstdint>

#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): counter based, so element i of a
/// draw depends on the seed, the offset and i alone. A generator is a value: each draw moves its offset on past what it
/// used, so the next one is independent; the same seed and offset give the same bits on every device and build.
/// Not for secrets. One thread at a time a generator.
struct Random {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< blocks of four 32-bit numbers used so far
};

/// 32 random bits an element, in u32.
Tensor random_bits(const Device& device, const Shape& shape, Random& generator);
/// Uniform in [low, high): 24 bits of an f32 (11 of an f16), high never taken.
Tensor random_uniform(const Device& device, const Shape& shape, Random& generator, double low = 0, double high = 1,
                      DType dtype = DType::f32);
/// Normal by Box and Muller's transform (1958), f32 or f16. Equal across devices up to rounding of log, sin and cos.
Tensor random_normal(const Device& device, const Shape& shape, Random& generator, double mean = 0, double stddev = 1,
                     DType dtype = DType::f32);
/// Uniform over the integers [low, high), without bias (Lemire 2019, with a 64-bit product); i32 or u32.
Tensor random_integers(const Device& device, const Shape& shape, Random& generator, std::int64_t low, std::int64_t high,
                       DType dtype = DType::i32);

}  // namespace weft
