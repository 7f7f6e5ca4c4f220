#include "ops/infer_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "weft/error.h"

namespace weft::ops {
namespace {

[[noreturn]] void refuse(const std::string& what, std::string fix) {
  throw Error(ErrorCode::invalid_argument, "attention: " + what, std::move(fix));
}

}  // namespace

AttentionShape attention_shape(const Shape& q, const Shape& k, const Shape& v) {
  const auto all = [&] { return fmt::format("q {}, k {}, v {}", to_string(q), to_string(k), to_string(v)); };
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) {
    refuse(fmt::format("{}: not all have 4 axes", all()), "give [batch, heads, sequence, dim] (expand_dims, reshape)");
  }
  AttentionShape s{q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
  if (k[0] != s.batch || v[0] != s.batch) {
    refuse(fmt::format("{}: batches differ", all()), "make the first axes equal (broadcast_to makes a view)");
  }
  if (v[1] != s.kv_heads || v[2] != s.keys) {
    refuse(fmt::format("{}: k and v differ in heads or keys", all()), "give each key a value");
  }
  if (k[3] != s.dim) refuse(fmt::format("{}: q and k differ in the last axis", all()), "make their dims equal");
  if (s.dim == 0) refuse(fmt::format("{}: a head dimension of 0", all()), "give q and k at least one element a head");
  if (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0) {
    refuse(fmt::format("{}: {} heads are no multiple of {} kv heads", all(), s.heads, s.kv_heads),
           "let each kv head serve the same number of heads");
  }
  return s;
}

void check_attention_types(DType q, DType k, DType v) {
  if (!is_float(q) || k != q || v != q) {
    refuse(fmt::format("q is {}, k {}, v {}", to_string(q), to_string(k), to_string(v)),
           "cast all to float32, or all to float16");
  }
}

void check_attention_mask(const AttentionShape& of, const Shape& mask, DType dtype) {
  if (dtype != DType::bool_ && !is_float(dtype)) {
    refuse(fmt::format("the mask is {}", to_string(dtype)), "give bool (true: seen), or a float that is added");
  }
  const Shape scores = of.scores();
  bool fits = mask.rank() <= 4;
  for (std::size_t i = 0; fits && i < mask.rank(); ++i) {
    const std::int64_t length = mask[mask.rank() - 1 - i];
    fits = length == 1 || length == scores[3 - i];
  }
  if (!fits) {
    refuse(fmt::format("a mask of shape {} does not broadcast to [batch, heads, queries, keys] {}", to_string(mask),
                       to_string(scores)),
           "make each of its lengths 1 or that of the scores");
  }
}

void check_attention_numbers(double scale, double softcap) {
  const auto check = [](const char* name, double value, bool good, const char* fix) {
    if (!good) throw Error(ErrorCode::invalid_argument, fmt::format("attention: {} is {}", name, value), fix);
  };
  check("scale", scale, std::isfinite(scale), "give a finite number, or none for 1 / sqrt(dim)");
  check("softcap", softcap, std::isfinite(softcap) && softcap >= 0, "give a finite number over 0, or 0 for none");
}

void check_attention_lengths(const AttentionShape& of, const Shape& lengths, DType dtype) {
  if (dtype != DType::i32 && dtype != DType::u32) {
    refuse(fmt::format("lengths are {}", to_string(dtype)), "cast them to int32");
  }
  if (lengths.rank() != 1 || lengths[0] != of.batch) {
    refuse(fmt::format("lengths of shape {} for a batch of {}", to_string(lengths), of.batch),
           "give one for each item of the batch");
  }
}

}  // namespace weft::ops
