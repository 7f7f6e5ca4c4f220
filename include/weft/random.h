// weft/random.h - random numbers, the same on every device for the same seed.
#pragma once

#include <cstdint>

#include "weft/ops.h"
#include "weft/tensor.h"

namespace weft {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): counter based, so element i of a
/// draw depends on the seed, the offset and i alone. A generator is a value: each draw moves its offset on past what it
/// used, so the next one is independent; the same seed and offset give the same bits on every device and build.
/// Element i is number i % 4 of the block whose key is the seed and whose counter is (offset + i / 4 in its low 64
/// bits, the attempt in the next 32, 0); the attempt is 0 but where random_integers rejects a number. A draw of n
/// elements moves the offset on by ceil(n / 4), modulo 2^64; one that throws leaves it. Not for secrets. One thread at
/// a time a generator.
struct Random {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< blocks of four 32-bit numbers used so far
};

/// 32 random bits an element, in u32.
Tensor random_bits(const Device& device, const Shape& shape, Random& generator);
/// Uniform in [low, high), both rounded to the dtype first: low + u (high - low) with u of 24 bits (11 for f16),
/// rounded after the product and after the sum, so equal on every device; high is never taken, also where the sum
/// rounds to it. Error{invalid_argument} for an empty range or one wider than a float32.
Tensor random_uniform(const Device& device, const Shape& shape, Random& generator, double low = 0, double high = 1,
                      DType dtype = DType::f32);
/// Normal by Box and Muller's transform (1958) of two numbers to two, f32 or f16; no further than 6.66 deviations from
/// the mean. Equal across devices up to rounding of log, root, sine and cosine.
Tensor random_normal(const Device& device, const Shape& shape, Random& generator, double mean = 0, double stddev = 1,
                     DType dtype = DType::f32);
/// Uniform over the integers [low, high), without bias (Lemire 2019, with a 64-bit product); i32 or u32, all 2^32
/// values at most. A rejected number is drawn again from the same block at the next attempt.
Tensor random_integers(const Device& device, const Shape& shape, Random& generator, std::int64_t low, std::int64_t high,
                       DType dtype = DType::i32);

}  // namespace weft
