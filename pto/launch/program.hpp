// SPDX-License-Identifier: Apache-2.0
// Program: a compiled graph, ready to run: sizes to check, memory to allocate, kernels to launch.
//
//     std::shared_ptr<const Program> program = compile(graph, options);   // compiler/
//     Call call(*program, tensors, scalars);                              // call.hpp
//
// A kernel gets the scalars [the graph's..., items, quantum, s0, s1, ...]; block b of n computes
// the items from units * b / n * quantum on, with units = ceil(items / quantum).
//
// Invariant: tensors come in the order of the graph's inputs (tensors apart from scalars); outputs
// are row-major and dense. Temporaries hold results of reductions only, never a full tensor.
// Thread safety: immutable; it may run on many threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pto/abi/host.h"
#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/program_spec.hpp"
#include "pto/base/size_program.hpp"

namespace pto {

class Program {
 public:
  // `functions` are the entries of the launches; `library` keeps the code loaded.
  Program(ProgramSpec spec, std::vector<pto_kernel> functions, std::shared_ptr<void> library);

  const ProgramSpec& spec() const { return spec_; }

  static constexpr int kMaxSymbols = 64;
  static constexpr int kMaxScalars = 32;

 private:
  friend class Call;  // runs it
  struct Binding {    // the source of a symbol's value
    int input, axis;
  };
  struct Check {  // a size that must equal something already known
    int input, axis;
    SizeProgram expected;
  };
  struct BoundLaunch {
    pto_kernel function;
    SizeProgram items, bytes;
    bool takes_all;  // its tensors are the program's, in order
  };
  struct BoundTensor {
    DLPackType type;
    int item_bytes;
    int32_t rank;
    size_t numbers;                  // where a call has its sizes, then its strides
    std::vector<SizeProgram> sizes;  // of an output or temporary
  };

  void bind_inputs();
  void require_bound(const Dim& dim, const std::string& where) const;
  void bind_tensor(const TensorSpec& tensor, bool is_input);
  void bind_launches(const std::vector<pto_kernel>& functions);

  ProgramSpec spec_;
  std::shared_ptr<void> library_;
  std::vector<Binding> bindings_;  // of s0, s1 ...; input -1 where nothing uses the symbol
  std::vector<Check> checks_;
  std::vector<std::pair<SizeProgram, SizeProgram>> guards_;
  std::vector<BoundTensor> tensors_;  // inputs, outputs, temporaries
  size_t n_inputs_, n_outputs_;
  size_t n_scalars_;      // of the caller
  size_t n_numbers_ = 0;  // sizes and strides of all tensors
  std::vector<BoundLaunch> launches_;
};

}  // namespace pto
