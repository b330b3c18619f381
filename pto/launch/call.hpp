// SPDX-License-Identifier: Apache-2.0
// Call: a program with the sizes of its arguments bound and checked, ready to run.
//
//     Call call(program, tensors, scalars);   // binds symbols and checks sizes, or throws Error
//     call.output_sizes(0);                   // the caller allocates
//     call.run(outputs);                      // once, on the tensors given
//     call.run(inputs, outputs);              // any number of times, on other memory
//
// Invariant: it owns copies of its arguments, except for the program, which must outlive it.
// Thread safety: immutable but for run(outputs); run(inputs, outputs) may be under way on many
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pto/launch/program.hpp"

namespace pto {

// Holds `size` values, a few of them without an allocation.
template <class T, size_t kFew>
class FewOrMany {
 public:
  explicit FewOrMany(size_t size) : data_(size <= kFew ? few_ : new T[size]) {}
  FewOrMany(const FewOrMany&) = delete;
  FewOrMany& operator=(const FewOrMany&) = delete;
  ~FewOrMany() {
    if (data_ != few_) delete[] data_;
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  T few_[kFew];
  T* const data_;
};

// Splits a launch into blocks: one where handing work over costs more than it saves, else blocks of
// at least 32 KB of traffic, at most 8 a thread, never more than ceil(items / quantum).
int32_t block_count(int64_t items, int64_t bytes, int64_t quantum, int threads,
                    int64_t grain_bytes);

// Says whether the code is one elementwise kernel (LaunchSpec::is_elementwise).
bool is_elementwise(const ProgramSpec& spec);

// Says whether the code may compute an output directly in the input whose elements it becomes
// (TensorSpec::writes): that input shares memory with no other, and none of its elements is read
// after its place was written; with gaps, the code follows its strides (Call::lay_over_input).
// Elementwise code may also read it as another input, whole.
bool may_write_in_place(const ProgramSpec& spec, size_t output,
                        std::span<const pto_tensor_ref> inputs);

class Call {
 public:
  // Throws pto::Error naming both sizes where a size contradicts the graph or a guard.
  // Rank and dtype must be those of the specification (the kernel table's key says so). The kernels
  // get `params` as they are.
  Call(const Program& program, std::span<const pto_tensor_ref> inputs,
       std::span<const uint64_t> scalars, std::vector<std::byte> params = {});

  // Gives an output the strides of the input that it replaces: runs get the memory of that input
  // for it. The code must follow strides there (the class of the output); no run may be under way.
  void lay_over_input(size_t output);

  // Replaces the params of later runs; no run may be under way.
  void set_params(std::vector<std::byte> params) { params_ = std::move(params); }

  const Program& program() const { return program_; }
  std::span<const pto_tensor> inputs() const { return {tensors_.data(), n_inputs_}; }
  std::span<const pto_tensor> outputs() const { return {tensors_.data() + n_inputs_, n_outputs_}; }
  std::span<const int64_t> output_sizes(int output) const {
    const pto_tensor& one = outputs()[static_cast<size_t>(output)];
    return {one.sizes, static_cast<size_t>(one.rank)};
  }
  int64_t output_bytes(int output) const {
    return outputs()[static_cast<size_t>(output)].extent_bytes;
  }

  // Runs all launches; outputs are dense but where they lie over an input, 64-byte aligned is best,
  // and must not overlap other inputs.
  // Throws pto::Error with the kernel's text.
  void run(std::span<void* const> outputs);
  void run(std::span<void* const> inputs, std::span<void* const> outputs) const {
    run(inputs, outputs, params_);
  }
  void run(std::span<void* const> inputs, std::span<void* const> outputs,
           std::span<const std::byte> params) const;

 private:
  struct Launch {  // a launch with known sizes
    int64_t items, bytes, written_bytes;
  };
  void add_inputs(std::span<const pto_tensor_ref> inputs);
  void add_scalars(std::span<const uint64_t> scalars);
  void check_sizes() const;
  void add_made_tensors();
  void measure_launches();
  void run_all(pto_tensor* tensors, uint64_t* scalars, std::span<void* const> outputs,
               std::span<const std::byte> params) const;
  void run_one(size_t launch, const pto_tensor* tensors, uint64_t* scalars,
               std::span<const std::byte> params) const;
  const std::string& name_of(size_t tensor) const;
  std::string origin(const Dim& dim) const;
  std::string origins(std::initializer_list<const SizeProgram*> sizes) const;
  int64_t value_of(const SizeProgram& size) const;
  [[noreturn]] void fail_check(int input, int axis, const SizeProgram& expected) const;
  [[noreturn]] void fail_guard(size_t guard) const;
  [[noreturn]] void fail_negative(size_t tensor, size_t axis) const;

  const Program& program_;
  const size_t n_inputs_, n_outputs_, n_scalars_;
  FewOrMany<pto_tensor, 8> tensors_;  // inputs, outputs, temporaries
  FewOrMany<int64_t, 32> numbers_;    // their sizes and strides
  FewOrMany<uint64_t, 16> scalars_;   // the caller's, items and quantum of a launch, the symbols
  const int64_t* const symbols_;      // among them
  FewOrMany<Launch, 2> launches_;
  int64_t scratch_bytes_ = 0;  // of the temporaries
  std::vector<std::byte> params_;
};

}  // namespace pto
