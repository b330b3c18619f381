// SPDX-License-Identifier: Apache-2.0
// TPREFETCH and TPREFETCH_ASYNC: move memory towards the core before a kernel needs it.
//
//     TPREFETCH(tile, view);                        // the tile holds the view's elements
//     TPREFETCH(tile, other);                       // or those of another tile
//     PrefetchAsyncContext context;
//     auto event = TPREFETCH_ASYNC(view, context);  // towards the second cache, without waiting
//
// Invariant: memory does not change. The asynchronous form asks for at most kPrefetchBytes, which
// a second cache holds; a hint never faults.
// Thread safety: as TLOAD.
#pragma once
#include "pto/isa/memory/async.hpp"
#include "pto/isa/memory/move.hpp"
#include "pto/isa/memory/transfer.hpp"

PTO_NAMESPACE_BEGIN

// The work space of hardware's copying engine; nothing here needs it.
struct PrefetchAsyncContext {
  uint8_t* workspace = nullptr;
  comm::AsyncSession session;

  PrefetchAsyncContext() = default;
  explicit PrefetchAsyncContext(uint8_t* memory) : workspace(memory) {}
};

constexpr int64_t kPrefetchBytes = 512 << 10;

namespace detail {

// Prefetches the cache lines of `bytes` bytes while the budget lasts.
PTO_INLINE void ask_for(const void* memory, int64_t bytes, int64_t& budget) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(memory) & ~uintptr_t(63);
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory) + uintptr_t(bytes > 0 ? bytes : 0);
  for (uintptr_t line = first; line < end && budget > 0; line += 64, budget -= 64)
    __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
}

template <class G>
PTO_INLINE void ask_for_view(const G& g) {
  constexpr int64_t kSize = sizeof(typename G::Element);
  int64_t budget = kPrefetchBytes;
  if constexpr (G::kIsPacked) {
    const int64_t most = kPrefetchBytes / kSize, count = g.count();
    ask_for(g.data(), (count < most ? count : most) * kSize, budget);
  } else {
    const int64_t row = (g.GetShape(4) - 1) * g.GetStride(4) + 1;
    for (int64_t a = 0; a < g.GetShape(0); ++a)
      for (int64_t b = 0; b < g.GetShape(1); ++b)
        for (int64_t c = 0; c < g.GetShape(2); ++c)
          for (int64_t d = 0; d < g.GetShape(3) && budget > 0; ++d)
            ask_for(g.data() + a * g.GetStride(0) + b * g.GetStride(1) + c * g.GetStride(2) +
                        d * g.GetStride(3),
                    row * kSize, budget);
  }
}

}  // namespace detail

template <class D, class G, typename Enable<!kIsTile<G>>::type = 0>
PTO_INLINE RecordEvent TPREFETCH(D& d, const G& g) {
  PTO_ENTER(TPREFETCH, "d, g", out(d), in(g));
  return TLOAD(d, g);
}
template <class D, class S, typename Enable<kIsTile<S>>::type = 0>
PTO_INLINE RecordEvent TPREFETCH(D& d, const S& s) {
  PTO_ENTER(TPREFETCH, "d, s", out(d), in(s));
  return TMOV(d, s);
}

template <class G, class... X>
PTO_INLINE comm::AsyncEvent TPREFETCH_ASYNC(const G& g, PrefetchAsyncContext&, const X&...) {
  PTO_INSTRUCTION(TPREFETCH_ASYNC, "g, context", in(g));
  detail::ask_for_view(g);
  return {};
}

PTO_NAMESPACE_END
