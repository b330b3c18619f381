// SPDX-License-Identifier: Apache-2.0
// Event: lets an instruction wait for another one, by the pipes of the two.
//
//     Event<Op::TLOAD, Op::TADD> loaded;
//     loaded = TLOAD(a, x);
//     TADD(c, a, b, loaded);      // or loaded.Wait()
//
// Record<Id>() and Wait<Id>() are flag Id between the cores of a block (see sync.hpp).
//
// Invariant: instructions of a core run in order here, so an event only says whether it was
// recorded. Inside launches, waiting for an event between two different pipes that was not recorded
// fails the block.
// Thread safety: an event belongs to one core.
#pragma once
#include "pto/isa/sync/sync.hpp"

PTO_NAMESPACE_BEGIN

// The instructions that events name, by the pipe that runs them.
// clang-format off
#define PTO_OPS_MTE2(op) op(TLOAD) op(TPREFETCH) op(TEXPANDS_MAT) op(MGATHER_MAT)
#define PTO_OPS_MTE3(op) op(TSTORE_VEC) op(TSTORE_MAT) op(MSCATTER) op(TMOV_V2M) op(TEXTRACT_V2M)
#define PTO_OPS_S(op) op(SCALAR) op(TRESHAPE) op(TCI) op(SETFMATRIX) op(SET_IMG2COL_RPT) \
  op(SET_IMG2COL_PADDING)
#define PTO_OPS_M(op) op(TMATMUL) op(TGEMV) op(TMATMUL_MX)
#define PTO_OPS_MTE1(op) op(TMOV_M2B) op(TMOV_M2L) op(TMOV_M2R) op(TEXTRACT_M2LR) op(TIMG2COL) \
  op(TFILLPAD_MAT)
#define PTO_OPS_FIX(op) op(TMOV_M2S) op(TMOV_A2V) op(TMOV_A2M) op(TSTORE_ACC) op(TEXTRACT_A2M) \
  op(TINSERT_A2M)
#define PTO_OPS_V(op) op(VECTOR) op(TADD) op(TADDS) op(TADDC) op(TADDSC) op(TAXPY) op(TSUB) \
  op(TSUBS) op(TSUBC) op(TSUBSC) op(TMUL) op(TMULS) op(TDIV) op(TDIVS) op(TMIN) op(TMINS) \
  op(TMAX) op(TMAXS) op(TAND) op(TANDS) op(TOR) op(TORS) op(TXOR) op(TXORS) op(TNOT) op(TSEL) \
  op(TSELS) op(TSHL) op(TSHLS) op(TSHR) op(TSHRS) op(TEXP) op(TLOG) op(TSQRT) op(TRSQRT) \
  op(TRECIP) op(TEXPANDS) op(TPARTADD) op(TPARTMUL) op(TPARTMAX) op(TPARTMIN) op(TPARTARGMAX) \
  op(TPARTARGMIN) op(TPOW) op(TPOWS) op(TCMP) op(TCMPS) op(TMRGSORT) op(TSORT32) op(TGATHER) \
  op(TGATHERB) op(TSCATTER) op(TCVT) op(TROWSUM) op(TROWPROD) op(TROWMAX) op(TROWMIN) \
  op(TROWARGMAX) op(TROWARGMIN) op(TROWEXPAND) op(TCOLSUM) op(TCOLPROD) op(TCOLMAX) op(TCOLMIN) \
  op(TCOLARGMAX) op(TCOLARGMIN) op(TCOLEXPAND) op(TRANDOM) op(TTRANS) op(TTRI) op(TREM) \
  op(TREMS) op(TFMOD) op(TFMODS) op(TLRELU) op(TPRELU) op(TRELU) op(TABS) op(TNEG) op(TMOV_V2V) \
  op(TCONCAT) op(TDEQUANT) op(TQUANT) op(TADDDEQRELU) op(TSUBRELU) op(TADDRELUCONV) \
  op(TSUBRELUCONV) op(TFUSEDMULADD) op(TFUSEDMULADDRELU) op(TMULADDDST) op(TPAIRREDUCESUM) \
  op(TCOLEXPANDADD) op(TCOLEXPANDSUB) op(TCOLEXPANDMUL) op(TCOLEXPANDDIV) op(TCOLEXPANDMAX) \
  op(TCOLEXPANDMIN) op(TCOLEXPANDEXPDIF) op(TROWEXPANDADD) op(TROWEXPANDSUB) op(TROWEXPANDMUL) \
  op(TROWEXPANDDIV) op(TROWEXPANDMAX) op(TROWEXPANDMIN) op(TROWEXPANDEXPDIF) op(TFILLPAD_VEC) \
  op(MGATHER_VEC) op(THISTOGRAM) op(TINTERLEAVE) op(TDEINTERLEAVE) op(TPACK)
// clang-format on

#define PTO_OP_NAME(op) op,
enum class Op : uint16_t {
  PTO_OPS_V(PTO_OP_NAME) kEndV,
  PTO_OPS_MTE2(PTO_OP_NAME) kEndMte2,
  PTO_OPS_MTE3(PTO_OP_NAME) kEndMte3,
  PTO_OPS_MTE1(PTO_OP_NAME) kEndMte1,
  PTO_OPS_FIX(PTO_OP_NAME) kEndFix,
  PTO_OPS_M(PTO_OP_NAME) kEndM,
  PTO_OPS_S(PTO_OP_NAME) OP_COUNT
};
#undef PTO_OP_NAME
#undef PTO_OPS_V
#undef PTO_OPS_MTE2
#undef PTO_OPS_MTE3
#undef PTO_OPS_MTE1
#undef PTO_OPS_FIX
#undef PTO_OPS_M
#undef PTO_OPS_S

constexpr pipe_t pipe_of(Op op) {
  return op < Op::kEndV      ? PIPE_V
         : op < Op::kEndMte2 ? PIPE_MTE2
         : op < Op::kEndMte3 ? PIPE_MTE3
         : op < Op::kEndMte1 ? PIPE_MTE1
         : op < Op::kEndFix  ? PIPE_FIX
         : op < Op::kEndM    ? PIPE_M
                             : PIPE_S;
}

template <Op Src, Op Dst, bool AutoToken = true, event_t Id = EVENT_ID0>
class Event {
  static constexpr uint8_t kOwnCore = 0xff;

 public:
  static constexpr Op srcOp = Src, dstOp = Dst;
  static constexpr pipe_t srcPipe = pipe_of(Src), dstPipe = pipe_of(Dst);
  static constexpr bool isSamePipe = srcPipe == dstPipe;

  Event() = default;
  PTO_INLINE Event(RecordEvent) { Record(); }
  PTO_INLINE Event& operator=(RecordEvent) { return Record(); }

  template <uint8_t CrossCoreId = kOwnCore>
  PTO_INLINE Event& Record(Here here = Here::now()) {
    if constexpr (CrossCoreId != kOwnCore)
      pto_cross_set(PTO_SYNC_BLOCK, CrossCoreId, here.file, here.line);
    is_recorded_ = true;
    return *this;
  }
  template <uint8_t CrossCoreId = kOwnCore>
  PTO_INLINE Event& Init(Here here = Here::now()) {
    return Record<CrossCoreId>(here);
  }
  PTO_INLINE Event& InitAddr(uint64_t) { return *this; }

  template <uint8_t CrossCoreId = kOwnCore>
  PTO_INLINE Event& Wait(Here here = Here::now()) {
    if constexpr (CrossCoreId != kOwnCore)
      pto_cross_wait(PTO_SYNC_BLOCK, CrossCoreId, here.file, here.line);
    else if (!is_recorded_ && !isSamePipe)
      pto_wait_flag(srcPipe, dstPipe, PTO_FLAG_OF_EVENT, here.file, here.line);
    is_recorded_ = false;
    return *this;
  }

 private:
  bool is_recorded_ = false;
};

// Waits for events. TSYNC<Op>() waits for the instruction's pipe, which has nothing to wait for
// here.
template <class... E>
PTO_INLINE void TSYNC(E&... events) {
  PTO_ENTER(TSYNC, "events", "-:");
  (events.Wait(), ...);
}
template <Op Instruction>
PTO_INLINE void TSYNC() {
  PTO_ENTER(TSYNC, "<Op>", "-:");
}

PTO_NAMESPACE_END
