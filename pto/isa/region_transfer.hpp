// SPDX-License-Identifier: Apache-2.0
// Region transfer: the tiles of a region to and from consecutive elements in memory.
//
//     load_elements(w, t, p);              // p[0], p[1], ..., as many as `w` counts
//     store_elements(w, p, t, stream);
//
// They do what TLOAD and TSTORE do there. Each kernel has dozens, and with the views and the checks
// of those instructions a compiler takes 7 % longer for the kernel.
//
// Thread safety: pure functions.
#pragma once
#include "pto/isa/region_values.hpp"

PTO_NAMESPACE_BEGIN
namespace region {

template <class D, class M, int W>
PTO_INLINE void load_elements(Whole<W> w, D& t, const M* p) {
  constexpr int N = kLanes<M>;
  if constexpr (D::Numel % N == 0)
    isa::detail::copy_unrolled<N, D::Numel / N>(t.data(), p);
  else
    TLOAD(t, GlobalTensor(const_cast<M*>(p), w.count()));
}
template <class D, class M>
PTO_INLINE void load_elements(Rest w, D& t, const M* p) {
  constexpr int N = kLanes<M>;
  if constexpr (D::Numel == N)
    lanes::store<N>(t.data(), lanes::load_part<N>(p, w.valid));
  else
    TLOAD(t, GlobalTensor(const_cast<M*>(p), w.count()));
}

// Stores past the caches if `stream` is set and the tile is whole; the caller has checked
// alignment.
template <int W, class M, class Source>
PTO_INLINE void store_elements(Whole<W> w, M* to, Source& t, bool stream) {
  constexpr int N = kLanes<M>;
  if constexpr (W % N != 0) {
    if (stream)
      TSTORE<CacheHint::Stream>(GlobalTensor(to, w.count()), t);
    else
      TSTORE(GlobalTensor(to, w.count()), t);
  } else if (stream) {
    isa::detail::store_unrolled<CacheHint::Stream, N, W / N>(to, t.data());
  } else {
    isa::detail::copy_unrolled<N, W / N>(to, t.data());
  }
}
template <class M, class Source>
PTO_INLINE void store_elements(Rest w, M* to, Source& t, bool) {
  constexpr int N = kLanes<M>;
  if constexpr (Source::Numel == N) {
    if (w.valid == N)
      lanes::store<N>(to, lanes::load<N>(t.data()));
    else
      lanes::store_part<N>(to, lanes::load<N>(t.data()), w.valid);
  } else {
    TSTORE(GlobalTensor(to, w.count()), t);
  }
}

}  // namespace region
PTO_NAMESPACE_END
