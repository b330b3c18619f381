// SPDX-License-Identifier: Apache-2.0
// ProgramSpec: what a compiled program needs at run time, as data: the code generator writes it,
// the runtime executes it.
//
// Thread safety: plain values.
#pragma once

#include <string>
#include <vector>

#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"

namespace pto {

// How a tensor lies in memory, as far as a kernel is specialised on it.
enum class StrideClass : uint8_t {
  Contiguous,  // row-major, dense
  Rows,        // the last axis has stride 1, the others any
  Any
};

struct TensorSpec {
  std::string name;
  DType dtype;
  Dims shape;
  StrideClass strides = StrideClass::Contiguous;
};

struct ScalarSpec {
  std::string name;
  DType dtype;
};

// One kernel of a program. `tensors` index inputs, then outputs, then temporaries of the program;
// kAbsentTensor is an optional argument that was not given.
inline constexpr int kAbsentTensor = -1;

struct LaunchSpec {
  std::string function;  // exported name
  std::vector<int> tensors;
  Dim items;            // independent pieces of work (rows, or elements); 0 launches nothing
  Dim bytes;            // compulsory traffic, decides how many blocks and whether to stream
  int64_t quantum = 1;  // items per block are a multiple of this (a cache line of outputs)
  // Element i of each output depends on element i of the inputs of its size alone (row-major), so
  // that an output may be such an input.
  bool is_elementwise = false;
  const void* params = nullptr;  // what the kernel gets instead of the call's, of the same life
                                 // as its code; null: the call's
};

// What the code generator says about the text that it printed.
struct ProgramSpec {
  std::string name;
  std::vector<TensorSpec> inputs, outputs, temporaries;
  std::vector<ScalarSpec> scalars;
  struct SizeGuard {
    Dim a, b;
    std::string because, location;
  };
  std::vector<SizeGuard> guards;
  std::vector<LaunchSpec> launches;
};

}  // namespace pto
