// SPDX-License-Identifier: Apache-2.0
// ProgramSpec: the needs of a compiled program at run time, as data. The code generator writes it;
// the launcher executes it.
//
//     ProgramSpec spec;
//     spec.name = "softmax";
//
// Thread safety: plain values.
#pragma once

#include <string>
#include <vector>

#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/size_guard.hpp"

namespace pto {

// StrideClass: the layout of a tensor in memory, as far as a kernel is specialised on it.
enum class StrideClass : uint8_t {
  Contiguous,  // row-major, dense
  Rows,        // the last axis has stride 1, the others any
  Any
};

// An output whose class is not Contiguous `replaces` an input of that class: it has the strides of
// that input in its memory, else those of a dense tensor.
struct TensorSpec {
  std::string name;
  DType dtype;
  Dims shape;
  StrideClass strides = StrideClass::Contiguous;
  int replaces = -1;    // the input whose memory may be this output's, which goes on from it; or -1
  int writes = -1;      // the input whose elements this output becomes after the call; or -1
  bool is_read = true;  // an input
};

struct ScalarSpec {
  std::string name;
  DType dtype;
};

inline constexpr int kAbsentTensor = -1;  // an optional argument that was not given

// One kernel of a program. `tensors` are places among the program's inputs, outputs and
// temporaries, in this order, or kAbsentTensor.
struct LaunchSpec {
  std::string function;  // exported name
  std::vector<int> tensors;
  Dim items;            // independent pieces of work (rows, or elements); 0 launches nothing
  Dim bytes;            // compulsory traffic; decides the number of blocks and whether to stream
  int64_t quantum = 1;  // items per block are a multiple of this (a cache line of outputs)
  // Element i of each output depends on element i of the inputs of its size alone (row-major), so
  // that an output may share the memory of such an input.
  bool is_elementwise = false;
  bool is_program = false;  // it runs once, on the caller's thread, and launches kernels itself
  const void* params = nullptr;  // the kernel's own params, which live as long as its code; null:
                                 // the kernel gets the call's
};

// A constant input whose matrices products read on their right, as abi/packed_right.h has it: a
// program gets such a record for each in its params, or no params. `precision` is that of the
// products, 0 for that of the process.
struct PackedSpec {
  int input, depth_axis, col_axis, precision;
  friend bool operator==(const PackedSpec&, const PackedSpec&) = default;
};

// The code generator's description of the text that it printed.
struct ProgramSpec {
  std::string name;
  std::vector<TensorSpec> inputs, outputs, temporaries;
  std::vector<ScalarSpec> scalars;
  struct Guard : SizeGuard {
    std::string location;
  };
  std::vector<Guard> guards;
  std::vector<LaunchSpec> launches;
  std::vector<PackedSpec> packed;
};

}  // namespace pto
