#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

namespace ps::tests {

/// Stands for any member when the members of an aggregate are counted.
struct AnyMember {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor): converting is its purpose
};

template <size_t>
using MemberNumber = AnyMember;

template <typename T, size_t... I>
constexpr bool TakesMembers(std::index_sequence<I...>) {
  return requires {
    T{MemberNumber<I>()...};
  };
}

template <typename T, size_t n = 0>
constexpr size_t MemberCount() {
  if constexpr (TakesMembers<T>(std::make_index_sequence<n + 1>())) {
    return MemberCount<T, n + 1>();
  } else {
    return n;
  }
}

/// References to all members of an aggregate, in order. A member added to a struct is here by
/// itself, so a test over members cannot forget it.
template <typename T>
auto Members(T& v) {
  constexpr size_t kCount = MemberCount<std::remove_const_t<T>>();
  static_assert(kCount <= 49, "add a line");
#define PS_TIE(count, ...)           \
  if constexpr (kCount == (count)) { \
    auto& [__VA_ARGS__] = v;         \
    return std::tie(__VA_ARGS__);    \
  }
  // clang-format off
  if constexpr (kCount == 0) {
    return std::tuple<>();
  }
  else PS_TIE(1, a)
  else PS_TIE(2, a, b)
  else PS_TIE(3, a, b, c)
  else PS_TIE(4, a, b, c, d)
  else PS_TIE(5, a, b, c, d, e)
  else PS_TIE(6, a, b, c, d, e, f)
  else PS_TIE(7, a, b, c, d, e, f, g)
  else PS_TIE(8, a, b, c, d, e, f, g, h)
  else PS_TIE(9, a, b, c, d, e, f, g, h, i)
  else PS_TIE(10, a, b, c, d, e, f, g, h, i, j)
  else PS_TIE(11, a, b, c, d, e, f, g, h, i, j, k)
  else PS_TIE(12, a, b, c, d, e, f, g, h, i, j, k, l)
  else PS_TIE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  else PS_TIE(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  else PS_TIE(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  else PS_TIE(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  else PS_TIE(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  else PS_TIE(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  else PS_TIE(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  else PS_TIE(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  else PS_TIE(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
  else PS_TIE(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w)
  else PS_TIE(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x)
  else PS_TIE(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y)
  else PS_TIE(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y, z)
  else PS_TIE(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y, z, A)
  else PS_TIE(27, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y, z, A, B)
  else PS_TIE(28, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C)
  else PS_TIE(29, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D)
  else PS_TIE(30, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E)
  else PS_TIE(31, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F)
  else PS_TIE(32, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G)
  else PS_TIE(33, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H)
  else PS_TIE(34, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I)
  else PS_TIE(35, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J)
  else PS_TIE(36, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K)
  else PS_TIE(37, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L)
  else PS_TIE(38, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M)
  else PS_TIE(39, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N)
  else PS_TIE(40, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O)
  else PS_TIE(41, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P)
  else PS_TIE(42, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q)
  else PS_TIE(43, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R)
  else PS_TIE(44, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S)
  else PS_TIE(45, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T_)
  else PS_TIE(46, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T_, U)
  else PS_TIE(47, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T_, U, V)
  else PS_TIE(48, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T_, U, V, W)
  else PS_TIE(49, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, w, x, y,
              z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T_, U, V, W, X)
  // clang-format on
#undef PS_TIE
}

}  // namespace ps::tests
