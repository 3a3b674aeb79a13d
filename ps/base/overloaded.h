#pragma once

namespace ps {

/// Several lambdas as one, for std::visit.
template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace ps
