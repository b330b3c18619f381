// SPDX-License-Identifier: Apache-2.0
// The instruction trace of the public simulator: with -DPTO_CPU_SIM_TRACE_MODE the calling thread
// notes every instruction that a kernel calls.
//
//     cpu_sim::ResetInstructionTrace();
//     TADD(c, a, b);
//     EXPECT_EQ(cpu_sim::CopyInstructionTraceRecords()[0].opcode, "TADD");
//
// Invariant: instructions that other instructions call are not noted. Operands are the tiles and
// views that an instruction reads and writes, so no temporary tiles. Without the mode the trace is
// empty.
// Thread safety: each thread has its own trace.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include <pto/abi/host.h>

namespace pto {
namespace cpu_sim {

struct TraceTile {
  std::uintptr_t address = 0;
  std::vector<int64_t> shape;
};

struct InstructionTraceRecord {
  std::string opcode;
  uint32_t block_idx = 0;
  uint64_t sequence_id = 0;
  std::vector<TraceTile> input_tiles, output_tiles;
  std::vector<std::string> scalar_inputs;  // none are noted
};

#if defined(PTO_CPU_SIM_TRACE_MODE)
inline constexpr bool kInstructionTraceEnabled = true;
#else
inline constexpr bool kInstructionTraceEnabled = false;
#endif

namespace tracing {

struct Trace {
  std::vector<InstructionTraceRecord> records;
  int depth = 0;
};
inline thread_local Trace trace;

// Operands of one kind; a text where there is no tile.
struct Operands {
  bool are_written = false;
  std::vector<TraceTile> tiles;
  Operands(bool written, std::vector<TraceTile> list)
      : are_written(written), tiles(std::move(list)) {}
  Operands(const char*) {}
};

template <class D, class = void>
constexpr bool kHasRows = false;
template <class D>
constexpr bool kHasRows<D, std::void_t<decltype(D::Rows)>> = true;
template <class D, class = void>
constexpr bool kHasShape = false;
template <class D>
constexpr bool kHasShape<D, std::void_t<decltype(std::declval<const D&>().GetShape(0))>> = true;

template <class D>
TraceTile tile_of(const D& d) {
  TraceTile tile{reinterpret_cast<std::uintptr_t>(d.data()), {}};
  if constexpr (kHasRows<D>)
    tile.shape = {D::Rows, D::Cols};
  else if constexpr (kHasShape<D>)
    for (int i = 0; i < 5; ++i) tile.shape.push_back(int64_t(d.GetShape(i)));
  return tile;
}

template <class... D>
Operands in(const D&... d) {
  return {false, {tile_of(d)...}};
}
template <class... D>
Operands out(const D&... d) {
  return {true, {tile_of(d)...}};
}
inline Operands atomic(bool) { return ""; }

// Spans an instruction from its first line to its end.
class Entered {
 public:
  template <class Note>
  Entered(const char* mnemonic, Note note) {
    if (trace.depth++ > 0) return;
    InstructionTraceRecord record;
    record.opcode = mnemonic;
    record.block_idx = uint32_t(pto_block_index());
    record.sequence_id = trace.records.size();
    note(record);
    trace.records.push_back(std::move(record));
  }
  ~Entered() { --trace.depth; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
};

inline void note(InstructionTraceRecord& record, std::initializer_list<Operands> operands) {
  for (const Operands& some : operands) {
    auto& list = some.are_written ? record.output_tiles : record.input_tiles;
    list.insert(list.end(), some.tiles.begin(), some.tiles.end());
  }
}

inline void write(std::ostream& out, const char* name, const std::vector<TraceTile>& tiles) {
  out << ",\"" << name << "\":[";
  const char* comma = "";
  for (const TraceTile& tile : tiles) {
    out << comma << "{\"address\":" << tile.address << ",\"shape\":[";
    for (size_t i = 0; i < tile.shape.size(); ++i) out << (i ? "," : "") << tile.shape[i];
    out << "]}";
    comma = ",";
  }
  out << "]";
}

}  // namespace tracing

inline void ResetInstructionTrace() { tracing::trace.records.clear(); }
inline std::vector<InstructionTraceRecord> CopyInstructionTraceRecords() {
  return tracing::trace.records;
}
// Writes a line for each instruction.
inline void DumpInstructionTraceJson(std::ostream& out) {
  for (const InstructionTraceRecord& record : tracing::trace.records) {
    out << "{\"opcode\":\"" << record.opcode << "\",\"block_idx\":" << record.block_idx
        << ",\"sequence_id\":" << record.sequence_id;
    tracing::write(out, "input_tiles", record.input_tiles);
    tracing::write(out, "output_tiles", record.output_tiles);
    out << "}\n";
  }
}

}  // namespace cpu_sim
}  // namespace pto

#if defined(PTO_CPU_SIM_TRACE_MODE) && !defined(PTO_ENTER)
#define PTO_ENTER(mnemonic, form, ...)                                     \
  const ::pto::cpu_sim::tracing::Entered pto_entered(                      \
      #mnemonic, [&](::pto::cpu_sim::InstructionTraceRecord& pto_record) { \
        using ::pto::cpu_sim::tracing::atomic;                             \
        using ::pto::cpu_sim::tracing::in;                                 \
        using ::pto::cpu_sim::tracing::out;                                \
        ::pto::cpu_sim::tracing::note(pto_record, {__VA_ARGS__});          \
      })
#endif
