// SPDX-License-Identifier: Apache-2.0
// pto::comm: ranks in one process copy to and from each other's memory and exchange signals.
//
//     comm::TPUT(remote, mine, tile);                              // remote = mine
//     comm::TNOTIFY(comm::Signal(flag), 1, comm::NotifyOp::AtomicAdd);
//     comm::TWAIT(comm::Signal(flag), 1, comm::WaitCmp::GE);       // in the other rank
//     auto group = comm::ParallelGroup<View>::Create(views, n, root);
//     comm::TREDUCE(group, out, acc, recv, comm::ReduceOp::Sum);   // in the root
//
// A rank is whoever holds the pointers: a block of a launch, a launch, a thread, or a process that
// shares memory with others. The tiles in a call are staging memory of hardware: here copies go
// straight from view to view and leave the tiles alone.
// Errors: see sync.hpp; a TWAIT that nobody serves fails 50 ms after the last block that could, or
// after 10 s where another thread launches or has waited.
//
// Invariant: a TWAIT or TTEST that a TNOTIFY satisfies also sees the rank's earlier writes.
// Thread safety: ranks run at the same time; AtomicAdd and signals are atomic, but two ranks must
// not write any other element at once.
#pragma once
#include "pto/isa/comm/comm_copy.hpp"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/memory/async.hpp"
#include "pto/isa/sync/sync.hpp"

PTO_NAMESPACE_BEGIN
namespace comm {

enum class NotifyOp : uint8_t { AtomicAdd, Set };
enum class WaitCmp : uint8_t { EQ, NE, GT, GE, LT, LE };
// The engine that copies or reduces on hardware; here the core does.
enum class DmaEngine : uint8_t { SDMA, URMA, RDMA };
enum class CollEngine : uint8_t { AIV, CCU };

using Signal = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<1, 1, 1, 1, 1>>;
template <class T, class S, class R, Layout O = Layout::ND>
using GlobalSignal = GlobalTensor<T, S, R, O>;

// A dense matrix of signals, or with a stride a part of a larger one.
template <int Rows, int Cols>
struct Signal2D : GlobalTensor<int32_t, Shape<1, 1, 1, Rows, Cols>, Stride<1, 1, 1, DYNAMIC, 1>> {
  using Base = GlobalTensor<int32_t, Shape<1, 1, 1, Rows, Cols>, Stride<1, 1, 1, DYNAMIC, 1>>;
  explicit PTO_INLINE Signal2D(int32_t* data, int stride = Cols)
      : Base(data, Shape<1, 1, 1, Rows, Cols>(), Stride<1, 1, 1, DYNAMIC, 1>(stride)) {}
};

// The views of all ranks, and the index of the root's. The array is the caller's.
template <class G>
struct ParallelGroup {
  using value_type = G;
  G* tensors = nullptr;
  int nranks = 0, rootIdx = -1;

  constexpr ParallelGroup() = default;
  constexpr ParallelGroup(G* views, int size, int root)
      : tensors(views), nranks(size), rootIdx(root) {}
  static constexpr ParallelGroup Create(G* views, int size, int root) {
    return {views, size, root};
  }
  constexpr int GetRootIdx() const { return rootIdx; }
  constexpr int GetSize() const { return nranks; }
  constexpr bool empty() const { return nranks == 0; }
  constexpr G& operator[](int rank) const { return tensors[rank]; }
};

namespace detail {

template <class S>
constexpr bool check_signal() {
  static_assert(
      kSame<typename S::Element, int32_t>,
      "a signal is an int32_t; pass a Signal, a Signal2D or a GlobalTensor<int32_t, ...>");
  return true;
}

PTO_INLINE bool compare(int32_t a, int32_t b, WaitCmp cmp) {
  return cmp == WaitCmp::EQ   ? a == b
         : cmp == WaitCmp::NE ? a != b
         : cmp == WaitCmp::GT ? a > b
         : cmp == WaitCmp::GE ? a >= b
         : cmp == WaitCmp::LT ? a < b
                              : a <= b;
}

template <class S>
bool all_hold(const S& signal, int32_t value, WaitCmp cmp) {
  bool all = true;
  for_each_row(signal, [&](int64_t offset, int64_t count, int64_t step, int64_t) {
    for (int64_t i = 0; i < count; ++i)
      all &=
          compare(__atomic_load_n(signal.data() + offset + i * step, __ATOMIC_SEQ_CST), value, cmp);
  });
  return all;
}

// Prints the words of a wait: "for a signal >= -3".
struct WaitText {
  char text[40] = "for a signal ";
  WaitText(int32_t value, WaitCmp cmp) {
    constexpr const char* kWords[] = {"== ", "!= ", "> ", ">= ", "< ", "<= "};
    int at = 13;
    for (const char* c = kWords[int(cmp)]; *c; ++c) text[at++] = *c;
    if (value < 0) text[at++] = '-';
    char digits[12];
    int n = 0;
    for (int64_t rest = value < 0 ? -int64_t(value) : value; n == 0 || rest > 0; rest /= 10)
      digits[n++] = char('0' + rest % 10);
    while (n > 0) text[at++] = digits[--n];
    text[at] = 0;
  }
};

template <class S>
void wait_for(const S& signal, int32_t value, WaitCmp cmp, Here here) {
  struct Condition {
    const S& signal;
    int32_t value;
    WaitCmp cmp;
  } condition = {signal, value, cmp};
  if (all_hold(signal, value, cmp)) {
    PTO_IF_CHECKED(pto_check_waited();)
    return;
  }
  const WaitText text(value, cmp);
  pto_wait_memory(
      [](const void* of) -> int32_t {
        const auto& asked = *static_cast<const Condition*>(of);
        return all_hold(asked.signal, asked.value, asked.cmp);
      },
      &condition, text.text, here.file, here.line);
}

}  // namespace detail

// Sets every element of the signal, or adds to it.
template <class S>
PTO_INLINE void TNOTIFY(const S& signal, int32_t value, NotifyOp op) {
  PTO_ENTER(TNOTIFY, "signal, value, NotifyOp", out(signal));
  static_assert(detail::check_signal<S>());
  detail::for_each_row(signal, [&](int64_t offset, int64_t count, int64_t step, int64_t) {
    for (int64_t i = 0; i < count; ++i) {
      int32_t* at = signal.data() + offset + i * step;
      if (op == NotifyOp::AtomicAdd)
        __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
      else
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
    }
  });
}

// Waits until every element compares so.
template <class S>
PTO_INLINE void TWAIT(const S& signal, int32_t value, WaitCmp cmp, Here here = Here::now()) {
  PTO_ENTER(TWAIT, "signal, value, WaitCmp", in(signal));
  static_assert(detail::check_signal<S>());
  detail::wait_for(signal, value, cmp, here);
}

template <class S>
PTO_INLINE bool TTEST(const S& signal, int32_t value, WaitCmp cmp) {
  PTO_ENTER(TTEST, "signal, value, WaitCmp", in(signal));
  static_assert(detail::check_signal<S>());
  const bool holds = detail::all_hold(signal, value, cmp);
  PTO_IF_CHECKED(if (holds) pto_check_waited();)
  return holds;
}

// Computes dst = src, or dst += src with an atomic addition of each element. Trailing operands: one
// tile or two, and the operation at run time.
template <AtomicType Atomic = AtomicType::AtomicNone, class D, class S, class T, class... X>
PTO_INLINE RecordEvent TPUT(const D& dst, const S& src, const T& tile, const X&... rest) {
  PTO_ENTER(TPUT, "dst, src, tile, [pong]", out(dst), in(src));
  static_assert(
      kIsTile<T>,
      "TPUT: the third operand is the tile through which hardware copies; give a staging tile");
  const bool adds = Atomic == AtomicType::AtomicAdd || detail::asks_to_add(rest...);
  detail::copy(dst, src, tile, adds);
  return {};
}
template <class D, class S, class T, class... X>
PTO_INLINE RecordEvent TGET(const D& dst, const S& src, const T& tile, const X&...) {
  PTO_ENTER(TGET, "dst, src, tile, [pong]", out(dst), in(src));
  static_assert(
      kIsTile<T>,
      "TGET: the third operand is the tile through which hardware copies; give a staging tile");
  detail::copy(dst, src, tile, false);
  return {};
}

// These are complete when they return, and so is their event.
template <DmaEngine Engine = DmaEngine::SDMA, class D, class S, class... Peer>
PTO_INLINE AsyncEvent TPUT_ASYNC(const D& dst, const S& src, const AsyncSession&, const Peer&...) {
  PTO_ENTER(TPUT_ASYNC, "dst, src, session, [peer]", out(dst), in(src));
  detail::copy(dst, src, src, false);
  return {};
}
template <DmaEngine Engine = DmaEngine::SDMA, class D, class S, class... Peer>
PTO_INLINE AsyncEvent TGET_ASYNC(const D& dst, const S& src, const AsyncSession&, const Peer&...) {
  PTO_ENTER(TGET_ASYNC, "dst, src, session, [peer]", out(dst), in(src));
  detail::copy(dst, src, src, false);
  return {};
}

// Checks the views of all ranks, which an instruction writes or reads, as its operands.
#define PTO_ENTER_GROUP(mnemonic, form, operand)          \
  PTO_IF_CHECKED(for (int i = 0; i < group.nranks; ++i) { \
    [[maybe_unused]] const G& view = group[i];            \
    PTO_ENTER(mnemonic, form, operand);                   \
  })

// The root calls these alone, when its signals say that the others are ready.
// TBROADCAST gives src to every rank's view.
template <CollEngine Engine = CollEngine::AIV, class G, class S, class T, class... X>
PTO_INLINE RecordEvent TBROADCAST(const ParallelGroup<G>& group, const S& src, const T& tile,
                                  const X&...) {
  PTO_ENTER(TBROADCAST, "group, src, tile, [pong]", in(src));
  PTO_ENTER_GROUP(TBROADCAST, "group, src, tile, [pong]", out(view));
  for (int rank = 0; rank < group.nranks; ++rank) detail::copy(group[rank], src, tile, false);
  return {};
}

// TGATHER stacks the views of all ranks in dst along dimension 3.
template <CollEngine Engine = CollEngine::AIV, class G, class D, class T, class... X>
PTO_INLINE RecordEvent TGATHER(const ParallelGroup<G>& group, const D& dst, const T&, const X&...) {
  PTO_ENTER(TGATHER, "group, dst, tile, [pong]", out(dst));
  PTO_ENTER_GROUP(TGATHER, "group, dst, tile, [pong]", in(view));
  static_assert(detail::check_stacked<G, D>());
  int64_t row = 0;
  for (int rank = 0; rank < group.nranks; row += group[rank++].GetShape(3))
    detail::copy_rows(dst, row, group[rank], 0, group[rank]);
  return {};
}
// TSCATTER does the reverse: every rank gets its rows of src.
template <CollEngine Engine = CollEngine::AIV, class G, class S, class T, class... X>
PTO_INLINE RecordEvent TSCATTER(const ParallelGroup<G>& group, const S& src, const T&,
                                const X&...) {
  PTO_ENTER(TSCATTER, "group, src, tile, [pong]", in(src));
  PTO_ENTER_GROUP(TSCATTER, "group, src, tile, [pong]", out(view));
  static_assert(detail::check_stacked<G, S>());
  int64_t row = 0;
  for (int rank = 0; rank < group.nranks; row += group[rank++].GetShape(3))
    detail::copy_rows(group[rank], 0, src, row, group[rank]);
  return {};
}

// Computes dst = the sum, maximum or minimum of all ranks' views, in the order of ranks; dst may be
// one of them. Trailing operands: two tiles or three, then the operation.
template <CollEngine Engine = CollEngine::AIV, class G, class D, class A, class... X>
PTO_INLINE RecordEvent TREDUCE(const ParallelGroup<G>& group, const D& dst, const A& acc,
                               const X&... rest) {
  PTO_ENTER(TREDUCE, "group, dst, acc, recv, [pong], ReduceOp", out(dst));
  PTO_ENTER_GROUP(TREDUCE, "group, dst, acc, recv, [pong], ReduceOp", in(view));
  static_assert(
      kIsTile<A>,
      "TREDUCE: the third operand is the tile in which hardware accumulates; give a tile");
  const ReduceOp op = detail::operation_of(rest...);
  const auto reduce_to = [&](const auto& sum) {
    detail::copy(sum, group[0], acc, false);
    for (int rank = 1; rank < group.nranks; ++rank) detail::reduce(sum, group[rank], acc, op);
  };
  bool is_read_later = false;
  for (int rank = 1; rank < group.nranks; ++rank)
    is_read_later = is_read_later || group[rank].data() == dst.data();
  if (is_read_later)
    detail::with_own_view(group[0], acc, [&](const auto& sum) {
      reduce_to(sum);
      detail::copy(dst, sum, acc, false);
    });
  else if (group.nranks > 0)
    reduce_to(dst);
  return {};
}
#undef PTO_ENTER_GROUP

}  // namespace comm
PTO_NAMESPACE_END
