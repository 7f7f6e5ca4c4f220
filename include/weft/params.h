// weft/params.h - what a C++ struct of parameters looks like, so that a kernel can check it against `struct Params`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/dtype.h"

namespace weft {

/// What a member of a C++ struct is made of. `unknown`: a class that can't be looked into, or a mixed one; `other`: a
/// scalar that WGSL does not have. The others are f32, i32, u32 and f16, in this order, and bool.
enum class ParamScalar : std::uint8_t { unknown, single, sint, uint, half, boolean, other };

/// One member: `count` scalars without gaps. A vector-like struct counts as its scalars.
struct ParamMember {
  std::uint32_t offset = 0;  ///< bytes
  std::uint32_t size = 0;    ///< bytes
  std::uint32_t count = 0;
  ParamScalar scalar = ParamScalar::unknown;
};

/// A C++ type of parameters. Made once a type by param_struct and never freed, so its address names the type.
struct ParamStruct {
  static constexpr std::size_t kMostMembers = 16;

  std::uint32_t size = 0;  ///< bytes
  /// False for what is no aggregate, or has over 16 members, bases, unions or bit-fields: only its size can be checked.
  bool known = false;
  std::size_t count = 0;
  std::array<ParamMember, kMostMembers> members{};
};

namespace detail {

/// Stands in for any member of Owner, in expressions that are never run.
template <class Owner>
struct AnyMember {
  explicit AnyMember(std::size_t);
  template <class T>
    requires(!std::is_same_v<T, Owner>)
  operator T() const;
};
template <class Owner>
struct AnyBase {
  template <class T>
    requires(std::is_base_of_v<T, Owner> && !std::is_same_v<T, Owner>)
  operator T() const;
};
struct AnyUnion {
  template <class T>
    requires(std::is_union_v<T>)
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{AnyMember<T>(I)...}; };
}
template <class T, std::size_t... Before, std::size_t... Inner, std::size_t... After>
constexpr bool takes_braced(std::index_sequence<Before...>, std::index_sequence<Inner...>,
                            std::index_sequence<After...>) {
  return requires { T{AnyMember<T>(Before)..., {AnyMember<T>(Inner)...}, AnyMember<T>(After)...}; };
}
template <class T, std::size_t... Before>
constexpr bool takes_union(std::index_sequence<Before...>) {
  return requires { T{AnyMember<T>(Before)..., AnyUnion()}; };
}

/// Values that initialise T without inner braces: C arrays count by their elements.
template <class T, std::size_t N = 0>
constexpr std::size_t flat_count() {
  if constexpr (N > 64 || !takes<T>(std::make_index_sequence<N + 1>())) {
    return N;
  } else {
    return flat_count<T, N + 1>();
  }
}

/// How many of those the member that starts at value `At` takes: over 1 for a C array only, which alone lets its
/// braced values replace as many of the others, and no more.
template <class T, std::size_t Flat, std::size_t At, std::size_t N>
constexpr std::size_t values_at() {
  if constexpr (N < 2) {
    return 1;
  } else if constexpr (!takes_braced<T>(std::make_index_sequence<At>(), std::make_index_sequence<2>(),
                                        std::index_sequence<>())) {
    return 1;
  } else if constexpr (takes_braced<T>(std::make_index_sequence<At>(), std::make_index_sequence<N>(),
                                       std::make_index_sequence<Flat - At - N>()) &&
                       !takes_braced<T>(std::make_index_sequence<At>(), std::make_index_sequence<N>(),
                                        std::make_index_sequence<Flat - At - N + 1>())) {
    return N;
  } else {
    return values_at<T, Flat, At, N - 1>();
  }
}

inline constexpr std::size_t kNotKnown = ~std::size_t{0};

template <class T, std::size_t Flat, std::size_t At = 0, std::size_t Found = 0>
constexpr std::size_t count_from() {
  if constexpr (At >= Flat) {
    return Found;
  } else if constexpr (Found == ParamStruct::kMostMembers || takes_union<T>(std::make_index_sequence<At>())) {
    return kNotKnown;
  } else {
    return count_from<T, Flat, At + values_at<T, Flat, At, Flat - At>(), Found + 1>();
  }
}

/// Members of an aggregate, or kNotKnown.
template <class T>
constexpr std::size_t member_count() {
  if constexpr (!std::is_class_v<T> || !std::is_aggregate_v<T> || std::is_empty_v<T>) {
    return kNotKnown;
  } else if constexpr (requires { T{AnyBase<T>()}; }) {
    return kNotKnown;
  } else {
    return count_from<T, flat_count<T>()>();
  }
}

/// Calls `use` with the members of `v`.
template <class T, class Use>
void with_members(const T& v, Use&& use) {
  constexpr std::size_t n = member_count<T>();
  // clang-format off
  if constexpr (n == 1) { const auto& [a] = v; use(a); }
  if constexpr (n == 2) { const auto& [a, b] = v; use(a, b); }
  if constexpr (n == 3) { const auto& [a, b, c] = v; use(a, b, c); }
  if constexpr (n == 4) { const auto& [a, b, c, d] = v; use(a, b, c, d); }
  if constexpr (n == 5) { const auto& [a, b, c, d, e] = v; use(a, b, c, d, e); }
  if constexpr (n == 6) { const auto& [a, b, c, d, e, f] = v; use(a, b, c, d, e, f); }
  if constexpr (n == 7) { const auto& [a, b, c, d, e, f, g] = v; use(a, b, c, d, e, f, g); }
  if constexpr (n == 8) { const auto& [a, b, c, d, e, f, g, h] = v; use(a, b, c, d, e, f, g, h); }
  if constexpr (n == 9) { const auto& [a, b, c, d, e, f, g, h, i] = v; use(a, b, c, d, e, f, g, h, i); }
  if constexpr (n == 10) { const auto& [a, b, c, d, e, f, g, h, i, j] = v; use(a, b, c, d, e, f, g, h, i, j); }
  if constexpr (n == 11) { const auto& [a, b, c, d, e, f, g, h, i, j, k] = v; use(a, b, c, d, e, f, g, h, i, j, k); }
  if constexpr (n == 12) { const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = v; use(a, b, c, d, e, f, g, h, i, j, k, l); }
  if constexpr (n == 13) { const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = v; use(a, b, c, d, e, f, g, h, i, j, k, l, m); }
  if constexpr (n == 14) { const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o] = v; use(a, b, c, d, e, f, g, h, i, j, k, l, m, o); }
  if constexpr (n == 15) { const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p] = v; use(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p); }
  if constexpr (n == 16) { const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q] = v; use(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q); }
  // clang-format on
}

template <class T>
inline constexpr std::size_t std_array_size = 0;
template <class T, std::size_t N>
inline constexpr std::size_t std_array_size<std::array<T, N>> = N;

template <class M>
constexpr ParamScalar scalar_of_type() {
  if constexpr (std::is_same_v<M, bool>) {
    return ParamScalar::boolean;
  } else if constexpr (std::is_enum_v<M>) {
    return scalar_of_type<std::underlying_type_t<M>>();
  } else if constexpr (std::is_same_v<M, float>) {
    return ParamScalar::single;
  } else if constexpr (std::is_same_v<M, float16>) {
    return ParamScalar::half;
  } else if constexpr (std::is_integral_v<M> && sizeof(M) == 4) {
    return std::is_signed_v<M> ? ParamScalar::sint : ParamScalar::uint;
  } else {
    return std::is_scalar_v<M> ? ParamScalar::other : ParamScalar::unknown;
  }
}

template <class T>
ParamStruct describe_struct(const T& v);

/// `count` elements of one kind in a row, when they leave no gaps.
inline void repeat(ParamMember& out, const ParamMember& element, std::size_t count) {
  const std::uint32_t scalar = element.scalar == ParamScalar::half ? 2 : 4;
  if (element.count == 0 || element.size != element.count * scalar) return;
  out.scalar = element.scalar;
  out.count = element.count * static_cast<std::uint32_t>(count);
}

template <class M>
ParamMember describe_member(const M& m, std::size_t offset) {
  ParamMember out;
  out.offset = static_cast<std::uint32_t>(offset < UINT32_MAX ? offset : UINT32_MAX);
  out.size = static_cast<std::uint32_t>(sizeof(M));
  if constexpr (std::is_array_v<M>) {
    repeat(out, describe_member(m[0], 0), std::extent_v<M>);
  } else if constexpr (std_array_size<M> > 0) {
    repeat(out, describe_member(m[0], 0), std_array_size<M>);
  } else if constexpr (scalar_of_type<M>() != ParamScalar::unknown) {
    out.scalar = scalar_of_type<M>();
    out.count = 1;
  } else if constexpr (std::is_class_v<M>) {
    const ParamStruct inner = describe_struct(m);
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < inner.count; ++i) {
      const ParamMember& part = inner.members[i];
      if (!inner.known || part.count == 0 || part.offset != end || part.scalar != inner.members[0].scalar) return out;
      end += part.count * (part.scalar == ParamScalar::half ? 2 : 4);
    }
    if (inner.count == 0) return out;
    out.scalar = inner.members[0].scalar;
    for (std::size_t i = 0; i < inner.count; ++i) out.count += inner.members[i].count;
  }
  return out;
}

template <class T>
ParamStruct describe_struct(const T& v) {
  ParamStruct out;
  out.size = static_cast<std::uint32_t>(sizeof(T));
  if constexpr (std::is_scalar_v<T> || std::is_array_v<T> || std_array_size<T> > 0 || std::is_same_v<T, float16>) {
    out.members[0] = describe_member(v, 0);
    out.count = 1;
    out.known = true;
  } else if constexpr (member_count<T>() != kNotKnown) {
    out.known = true;
    with_members(v, [&](const auto&... m) {
      const auto base = reinterpret_cast<std::uintptr_t>(&v);
      ((out.members[out.count++] = describe_member(m, reinterpret_cast<std::uintptr_t>(&m) - base)), ...);
    });
    // A bit-field comes as a temporary, which lies elsewhere.
    for (std::size_t i = 0; i < out.count; ++i) out.known = out.known && out.members[i].offset < sizeof(T);
  }
  return out;
}

}  // namespace detail

/// The description of P, made at the first call. `sample` shows where its members lie; its values don't matter.
template <class P>
const ParamStruct& param_struct(const P& sample) {
  static const ParamStruct made = detail::describe_struct(sample);
  return made;
}

}  // namespace weft
