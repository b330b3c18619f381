// SPDX-License-Identifier: Apache-2.0
// Program: a compiled graph, ready to run: what to check, what to allocate, what to launch.
//
//     std::shared_ptr<const Program> program = compile(graph, signature, options);   // compiler/
//     Call call(*program, tensors, scalars);           // binds symbols, checks sizes, or throws
//     Error call.output_sizes(0);                            // the caller allocates
//     call.run(output_pointers);
//
// Invariants: tensors come in the order of the graph's inputs (tensors apart from scalars); outputs
// are row-major and dense. Temporaries hold results of reductions only, never a full tensor.
// Thread safety: a Program is immutable and may run on many threads; a Call belongs to one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/program_spec.hpp"
#include "pto/isa/host.hpp"

namespace pto {

// A size in postfix form, evaluated without allocation at each call.
class SizeProgram {
 public:
  SizeProgram() = default;
  explicit SizeProgram(const Dim& dim);
  int64_t evaluate(const int64_t* symbols) const;

 private:
  struct Step {
    DimOp op;
    int64_t value;
  };
  std::vector<Step> steps_;
};

// A tensor argument of a call. Sizes and strides stay valid during the call.
struct TensorArgument {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;  // in elements
  int32_t rank;
  DType dtype;
};

class Program {
 public:
  // `functions` are the entries of the launches; `library` keeps the code loaded.
  Program(ProgramSpec spec, std::vector<pto_kernel> functions, std::shared_ptr<void> library);

  const ProgramSpec& spec() const { return spec_; }

  static constexpr int kMaxRank = 8;
  static constexpr int kMaxTensors = 32;
  static constexpr int kMaxSymbols = 64;

 private:
  friend class Call;
  struct Binding {  // where a symbol's value comes from
    int input, axis;
  };
  struct Check {  // a size that must equal something already known
    int input, axis;
    SizeProgram expected;
  };
  struct BoundLaunch {
    pto_kernel function;
    SizeProgram items, bytes;
  };
  ProgramSpec spec_;
  std::shared_ptr<void> library_;
  std::vector<Binding> bindings_;
  std::vector<Check> checks_;
  std::vector<std::pair<SizeProgram, SizeProgram>> guards_;
  std::vector<std::vector<SizeProgram>> output_sizes_, temporary_sizes_;
  std::vector<BoundLaunch> launches_;
};

// One call of a program: sizes bound and checked at construction.
class Call {
 public:
  // Throws pto::Error naming both sizes where a size contradicts the graph or a guard.
  // Rank and dtype must be those of the specification (the kernel table's key says so).
  Call(const Program& program, std::span<const TensorArgument> inputs,
       std::span<const uint64_t> scalars);

  std::span<const int64_t> output_sizes(int output) const;
  int64_t output_bytes(int output) const;

  // Runs all launches; outputs are dense, 64-byte aligned is best, and must not overlap inputs.
  // Throws pto::Error with the kernel's text.
  void run(std::span<void* const> outputs);

 private:
  const Program& program_;
  std::span<const TensorArgument> inputs_;
  std::span<const uint64_t> scalars_;
  int64_t symbols_[Program::kMaxSymbols];
  int64_t output_sizes_[Program::kMaxTensors][Program::kMaxRank];
};

}  // namespace pto
