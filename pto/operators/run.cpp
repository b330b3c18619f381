// SPDX-License-Identifier: Apache-2.0
// pto_operator_run(): finds or makes the program for plain arguments, and runs it.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/strided_copy.hpp"
#include "pto/operators/bounded_rows.hpp"
#include "pto/operators/call_arguments.hpp"
#include "pto/operators/last_error.hpp"
#include "pto/operators/memory.hpp"
#include "pto/operators/operator.hpp"
#include "pto/operators/run.hpp"

namespace pto {
namespace {

// One call, bound to its program: outputs allocated, ready to run once.
class BoundCall {
 public:
  BoundCall(const pto_operator_call& call, CallArguments& arguments)
      : op_(*call.op),
        arguments_(arguments),
        program_(program_of(op_, arguments)),
        rows_(call),
        call_(program_, arguments.tensors(), arguments.scalars()) {
    allocate_all(call);
  }

  void run() {
    make_inputs_dense();
    std::array<void*, PTO_MAX_BUFFERS> targets;
    std::vector<std::pair<size_t, Memory>> aside;
    const size_t count = given_outputs();
    for (size_t i = 0; i < count; ++i) {
      targets[i] = outputs_[i];
      if (!must_stand_aside(i)) continue;
      aside.emplace_back(i, Memory(op_.name, call_.output_bytes(static_cast<int>(i))));
      targets[i] = aside.back().second.data();
    }
    rows_.place(targets.data() + count);
    call_.run({targets.data(), program_.spec().outputs.size()}, arguments_.params());
    for (const auto& [i, memory] : aside) {
      std::memcpy(outputs_[i], memory.data(),
                  static_cast<size_t>(call_.output_bytes(static_cast<int>(i))));
    }
    rows_.report([this](int output) { return call_.output_sizes(output)[0]; });
  }

 private:
  void allocate_all(const pto_operator_call& call) {
    const auto tensors = static_cast<int>(given_outputs());
    int next = 0;
    for_each_output(call, tensors, [&](int output, int member) {
      const auto& spec = program_.spec().outputs[static_cast<size_t>(next)];
      outputs_[static_cast<size_t>(next)] = allocate_output(
          call, output, member, call_.output_sizes(next), spec.dtype, call_.output_bytes(next));
      ++next;
    });
    PTO_ASSERT(next == tensors);
  }

  // Counts the program's outputs, without those through which the kernel reports row counts.
  size_t given_outputs() const { return program_.spec().outputs.size() - rows_.count(); }

  // Copies tensors with gaps for a native kernel that takes no strides.
  void make_inputs_dense() {
    const Operator& self = operator_at(op_.index);
    if (!self.is_native || self.takes_strides) return;
    for (size_t i = 0; i < arguments_.given(); ++i) {
      pto_tensor_ref& tensor = arguments_.tensor(i);
      if (stride_class(tensor.sizes, tensor.strides, tensor.rank) == StrideClass::Contiguous) {
        continue;
      }
      int64_t* strides = dense_strides_[i].data();
      const int64_t elements = dense_strides(tensor.rank, tensor.sizes, strides);
      copies_.emplace_back(op_.name, elements * bytes(dtype_of(tensor)));
      copy_strided(copies_.back().data(), strides, tensor.data, tensor.strides, tensor.sizes,
                   tensor.rank, bytes(dtype_of(tensor)));
      tensor.data = copies_.back().data();
      tensor.strides = strides;
    }
  }

  // Says whether an output's memory holds something that is still to be read.
  bool must_stand_aside(size_t output) const {
    const auto index = static_cast<int>(output);
    const auto first = reinterpret_cast<uintptr_t>(outputs_[output]);
    const AddressRange range{first, first + static_cast<uintptr_t>(call_.output_bytes(index))};
    if (range.first == range.end) return false;
    for (size_t i = 0; i < arguments_.given(); ++i) {
      const pto_tensor_ref& input = arguments_.tensors()[i];
      if (!overlap(range, address_range(input))) continue;
      if (input.data != outputs_[output]) return true;
      if (!may_replace(program_.spec(), output, call_.output_sizes(index), input)) return true;
    }
    return false;
  }

  const pto_operator& op_;
  CallArguments& arguments_;
  const Program& program_;
  BoundedRows rows_;
  Call call_;
  std::array<void*, PTO_MAX_BUFFERS> outputs_;
  std::vector<Memory> copies_;
  std::array<std::array<int64_t, PTO_MAX_RANK>, PTO_MAX_TENSORS> dense_strides_;
};

}  // namespace

const Program& program_of(const pto_operator& op, const CallArguments& arguments) {
  Operator& self = operator_at(op.index);
  const auto compile = [&] {
    arguments.check_types();
    const std::vector<AttributeValue> attributes = arguments.attributes();
    return make_kernel({op.index, arguments.signature(), attributes, arguments.counts()});
  };
  return self.last_kernel.get(self.kernels_owner, arguments.signature(), compile);
}

bool may_replace(const ProgramSpec& spec, size_t output, std::span<const int64_t> sizes,
                 const pto_tensor_ref& input) {
  return spec.launches.size() == 1 && spec.launches[0].is_elementwise &&
         bytes(dtype_of(input)) == bytes(spec.outputs[output].dtype) &&
         std::equal(sizes.begin(), sizes.end(), input.sizes, input.sizes + input.rank) &&
         stride_class(input.sizes, input.strides, input.rank) == StrideClass::Contiguous;
}

int list_size(const pto_operator_call& call, int output, int tensors) {
  int lists = 0;
  for (int i = 0; i < call.op->n_outputs; ++i) lists += call.op->outputs[i].is_list;
  if (lists == 1) return tensors - (call.op->n_outputs - 1);
  const pto_shapes* shapes = pto_operator_shapes(&call);
  if (!shapes) throw std::runtime_error(pto_operator_error());
  return shapes->counts[output];
}

void* allocate_output(const pto_operator_call& call, int output, int member,
                      std::span<const int64_t> sizes, DType dtype, int64_t bytes) {
  void* memory = call.allocate(call.user, output, member, sizes.data(),
                               static_cast<int32_t>(sizes.size()), static_cast<int32_t>(dtype));
  if (memory) return memory;
  fail({std::string(call.op->name) + ": no memory for output " + std::to_string(output) + " of " +
            std::to_string(bytes) + " bytes",
        "the host could not allocate it", "use smaller tensors or free memory"},
       ErrorKind::Runtime);
}

void run_call(const pto_operator_call& call, CallArguments& arguments) {
  BoundCall(call, arguments).run();
}

}  // namespace pto

// A bound call that owns the sizes and strides that it still reads of the caller's description.
struct pto_operator_launch {
  explicit pto_operator_launch(const pto_operator_call& from)
      : call(from),
        arguments(with_copies(), pto::CallArguments::Reads::Values),
        bound(call, arguments) {
    call = {from.op, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  }

  const pto_operator_call& with_copies() {
    size_t given = 0;
    for (int32_t i = 0; i < call.op->n_tensors; ++i) {
      given += static_cast<size_t>(call.counts ? call.counts[i] : 1);
    }
    tensors.assign(call.tensors, call.tensors + given);
    size_t count = 0;
    for (const pto_tensor_ref& tensor : tensors) count += 2 * static_cast<size_t>(tensor.rank);
    numbers.resize(count);
    int64_t* next = numbers.data();
    for (pto_tensor_ref& tensor : tensors) {
      for (const int64_t** values : {&tensor.sizes, &tensor.strides}) {
        if (*values == nullptr) continue;
        const int64_t* const from = std::exchange(*values, next);
        next = std::copy_n(from, tensor.rank, next);
      }
    }
    call.tensors = tensors.data();
    return call;
  }

  std::vector<pto_tensor_ref> tensors;
  std::vector<int64_t> numbers;
  pto_operator_call call;
  pto::CallArguments arguments;
  pto::BoundCall bound;
};

int32_t pto_operator_run(const pto_operator_call* call) {
  return pto::reported([&] {
    pto::CallArguments arguments(*call, pto::CallArguments::Reads::Values);
    pto::run_call(*call, arguments);
  });
}

pto_operator_launch* pto_operator_bind(const pto_operator_call* call) {
  std::unique_ptr<pto_operator_launch> launch;
  pto::reported([&] { launch = std::make_unique<pto_operator_launch>(*call); });
  return launch.release();
}

int32_t pto_operator_launch_run(pto_operator_launch* launch) {
  return pto::reported([&] { launch->bound.run(); });
}

void pto_operator_launch_free(pto_operator_launch* launch) { delete launch; }
