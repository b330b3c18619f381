// SPDX-License-Identifier: Apache-2.0
// Program: a compiled graph, ready to run: sizes to check, memory to allocate, kernels to launch.
//
//     std::shared_ptr<const Program> program = compile(graph, options);   // compiler/
//     Call call(*program, tensors, scalars);   // binds symbols and checks sizes, or throws Error
//     call.output_sizes(0);                    // the caller allocates
//     call.run(output_pointers);
//
// A kernel gets the scalars [the graph's..., items, quantum, s0, s1, ...]; block b of n computes
// the items from units * b / n * quantum on, with units = ceil(items / quantum).
//
// Invariant: tensors come in the order of the graph's inputs (tensors apart from scalars); outputs
// are row-major and dense. Temporaries hold results of reductions only, never a full tensor.
// Thread safety: a Program is immutable and may run on many threads; a Call belongs to one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pto/abi/host.h"
#include "pto/abi/tensor.h"
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
  friend class Call;
  friend class RepeatedCall;
  struct Binding {  // the source of a symbol's value
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
  struct BoundTensor {  // an output or temporary
    DLPackType type;
    int item_bytes;
    std::vector<SizeProgram> sizes;
  };

  void bind_inputs();
  void require_bound(const Dim& dim, const std::string& where) const;
  BoundTensor bind_tensor(const TensorSpec& tensor) const;
  void bind_launches(const std::vector<pto_kernel>& functions);

  ProgramSpec spec_;
  std::shared_ptr<void> library_;
  std::vector<Binding> bindings_;  // of s0, s1 ...; input -1 where nothing uses the symbol
  std::vector<Check> checks_;
  std::vector<std::pair<SizeProgram, SizeProgram>> guards_;
  std::vector<BoundTensor> outputs_, temporaries_;
  std::vector<BoundLaunch> launches_;
};

struct MeasuredLaunch;  // start_launch.hpp

// Splits a launch into blocks: one where handing work over costs more than it saves, else blocks of
// at least 32 KB of traffic, at most 8 a thread, never more than ceil(items / quantum).
int32_t block_count(int64_t items, int64_t bytes, int64_t quantum, int threads,
                    int64_t grain_bytes);

// One call of a program: sizes bound and checked at construction.
class Call {
 public:
  // Throws pto::Error naming both sizes where a size contradicts the graph or a guard.
  // Rank and dtype must be those of the specification (the kernel table's key says so).
  Call(const Program& program, std::span<const pto_tensor_ref> inputs,
       std::span<const uint64_t> scalars);

  std::span<const int64_t> output_sizes(int output) const;
  int64_t output_bytes(int output) const;

  // Runs all launches; outputs are dense, 64-byte aligned is best, and must not overlap inputs. The
  // kernels get `params` as they are. Throws pto::Error with the kernel's text.
  void run(std::span<void* const> outputs, std::span<const std::byte> params = {});

 private:
  friend class RepeatedCall;
  struct Tensors;  // the tensors of the launches
  void check_sizes() const;
  void bind_outputs();
  int64_t describe(Tensors& tensors) const;  // leaves memory out; returns the bytes of temporaries
  void describe_inputs(Tensors& tensors) const;
  MeasuredLaunch measure(size_t launch) const;
  [[noreturn]] void fail_check(int input, int axis, const SizeProgram& expected) const;
  [[noreturn]] void fail_guard(size_t guard) const;
  std::string origin(const Dim& dim) const;

  const Program& program_;
  std::span<const pto_tensor_ref> inputs_;
  std::span<const uint64_t> scalars_;
  int64_t symbols_[Program::kMaxSymbols];
  int64_t output_sizes_[PTO_MAX_BUFFERS][PTO_MAX_RANK];
  int64_t output_bytes_[PTO_MAX_BUFFERS];
};

}  // namespace pto
