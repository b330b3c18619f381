// SPDX-License-Identifier: Apache-2.0
// Call: binds the sizes of one call, checks them, and launches.
#include <algorithm>

#include "pto/base/strided.hpp"
#include "pto/launch/start_launch.hpp"

namespace pto {
namespace {

constexpr int64_t kAlignment = 64;

// Returns the bytes of a dense tensor; throws where they leave 64 bits.
int64_t dense_bytes(const std::string& name, const int64_t* sizes, size_t rank, int item_bytes) {
  int64_t total = item_bytes;
  bool overflow = false;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis] == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(total, sizes[axis], &total);
  }
  if (!overflow && total <= INT64_MAX - kAlignment) return total;
  fail({"output " + name + " would have more than 2^63 bytes",
        "sizes and byte counts are 64-bit numbers", "pass smaller tensors"});
}

}  // namespace

Call::Call(const Program& program, std::span<const pto_tensor_ref> inputs,
           std::span<const uint64_t> scalars)
    : program_(program), inputs_(inputs), scalars_(scalars) {
  const ProgramSpec& spec = program.spec_;
  PTO_ASSERT(inputs.size() == spec.inputs.size() && scalars.size() == spec.scalars.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    PTO_ASSERT(inputs[i].rank == static_cast<int32_t>(spec.inputs[i].shape.size()) &&
               dtype_of(inputs[i]) == spec.inputs[i].dtype);
  }
  for (size_t s = 0; s < program.bindings_.size(); ++s) {
    const Program::Binding& from = program.bindings_[s];
    symbols_[s] = from.input < 0 ? 0 : inputs[static_cast<size_t>(from.input)].sizes[from.axis];
  }
  check_sizes();
  bind_outputs();
}

void Call::check_sizes() const {
  for (const Program::Check& check : program_.checks_) {
    const int64_t actual = inputs_[static_cast<size_t>(check.input)].sizes[check.axis];
    if (actual != check.expected.evaluate(symbols_)) [[unlikely]] {
      fail_check(check.input, check.axis, check.expected);
    }
  }
  for (size_t i = 0; i < program_.guards_.size(); ++i) {
    const auto& [a, b] = program_.guards_[i];
    if (a.evaluate(symbols_) != b.evaluate(symbols_)) [[unlikely]]
      fail_guard(i);
  }
}

void Call::bind_outputs() {
  for (size_t i = 0; i < program_.outputs_.size(); ++i) {
    const Program::BoundTensor& output = program_.outputs_[i];
    for (size_t axis = 0; axis < output.sizes.size(); ++axis) {
      const int64_t size = output.sizes[axis].evaluate(symbols_);
      output_sizes_[i][axis] = size;
      if (size >= 0) [[likely]]
        continue;
      fail({program_.spec_.name + ": axis " + std::to_string(axis) + " of the result would be " +
                std::to_string(size) + " = " + origin(output.sizes[axis].dim()),
            "sizes are not negative", "pass larger tensors"});
    }
    output_bytes_[i] = dense_bytes(program_.spec_.outputs[i].name, output_sizes_[i],
                                   output.sizes.size(), output.item_bytes);
  }
}

// Explains a size: "s1*2, where s1 is axis 0 of y = 4".
std::string Call::origin(const Dim& dim) const {
  if (dim.is_constant()) return text(dim);
  std::string all = dim.is_symbol() ? "" : text(dim) + ", where ";
  std::vector<int64_t> seen;
  each_symbol(dim, [&](int64_t symbol) {
    if (std::find(seen.begin(), seen.end(), symbol) != seen.end()) return;
    const Program::Binding& from = program_.bindings_[static_cast<size_t>(symbol)];
    const std::string& name = program_.spec_.inputs[static_cast<size_t>(from.input)].name;
    all += (seen.empty() ? "s" : ", s") + std::to_string(symbol) + " = " +
           std::to_string(symbols_[symbol]) + " is axis " + std::to_string(from.axis) + " of " +
           name;
    seen.push_back(symbol);
  });
  return all;
}

void Call::fail_check(int input, int axis, const SizeProgram& expected) const {
  const std::string& name = program_.spec_.inputs[static_cast<size_t>(input)].name;
  const int64_t actual = inputs_[static_cast<size_t>(input)].sizes[axis];
  const int64_t wanted = expected.evaluate(symbols_);
  fail({program_.spec_.name + ": axis " + std::to_string(axis) + " of " + name + " has size " +
            std::to_string(actual) + ", but " + std::to_string(wanted) + " is required",
        expected.dim().is_constant() ? "the kernel was compiled for this size"
                                     : "the size must equal " + origin(expected.dim()),
        "pass " + name + " with " + std::to_string(wanted) + " elements on axis " +
            std::to_string(axis)});
}

void Call::fail_guard(size_t guard) const {
  const auto& [a, b] = program_.guards_[guard];
  const ProgramSpec::Guard& spec = program_.spec_.guards[guard];
  if (spec.kind == GuardKind::Nonempty) {
    throw Error(empty_reduction(program_.spec_.name + ": " + spec.because, origin(a.dim().left())))
        .at(spec.location);
  }
  throw Error({program_.spec_.name + ": sizes " + std::to_string(a.evaluate(symbols_)) + " and " +
                   std::to_string(b.evaluate(symbols_)) + " differ in " + spec.because,
               origin(a.dim()) + " must equal " + origin(b.dim()),
               "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1"})
      .at(spec.location);
}

std::span<const int64_t> Call::output_sizes(int output) const {
  const auto index = static_cast<size_t>(output);
  return {output_sizes_[index], program_.outputs_[index].sizes.size()};
}

int64_t Call::output_bytes(int output) const { return output_bytes_[static_cast<size_t>(output)]; }

void Call::describe_inputs(Tensors& tensors) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const pto_tensor_ref& input = inputs_[i];
    const DLPackType type = dlpack_type(dtype_of(input));
    uint32_t flags = PTO_TENSOR_READ_ONLY;
    uint64_t extent = static_cast<uint64_t>(-1);
    if (program_.spec_.inputs[i].strides == StrideClass::Contiguous) {
      flags |= PTO_TENSOR_CONTIGUOUS;
      extent = static_cast<uint64_t>(bytes(dtype_of(input)));
      for (int axis = 0; axis < input.rank; ++axis) {
        extent *= static_cast<uint64_t>(input.sizes[axis]);
      }
    }
    tensors.all[i] = {input.data, input.sizes, input.strides,
                      input.rank, type.code,   type.bits,
                      1,          flags,       static_cast<int64_t>(extent)};
  }
}

int64_t Call::describe(Tensors& tensors) const {
  const auto& temporaries = program_.temporaries_;
  describe_inputs(tensors);
  const auto describe_one = [&tensors](size_t index, const int64_t* sizes,
                                       const Program::BoundTensor& bound, int64_t extent) {
    const auto rank = static_cast<int>(bound.sizes.size());
    dense_strides(rank, sizes, tensors.strides[index]);
    tensors.all[index] = {nullptr,         sizes, tensors.strides[index], rank,  bound.type.code,
                          bound.type.bits, 1,     PTO_TENSOR_CONTIGUOUS,  extent};
  };
  size_t next = inputs_.size();
  for (size_t i = 0; i < program_.outputs_.size(); ++i) {
    describe_one(next++, output_sizes_[i], program_.outputs_[i], output_bytes_[i]);
  }
  int64_t scratch_bytes = 0;
  for (size_t i = 0; i < temporaries.size(); ++i) {
    for (size_t axis = 0; axis < temporaries[i].sizes.size(); ++axis) {
      tensors.sizes[i][axis] = temporaries[i].sizes[axis].evaluate(symbols_);
    }
    const int64_t size = dense_bytes(program_.spec_.temporaries[i].name, tensors.sizes[i],
                                     temporaries[i].sizes.size(), temporaries[i].item_bytes);
    const int64_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    describe_one(next++, tensors.sizes[i], temporaries[i], rounded);
    scratch_bytes += rounded;
  }
  const size_t given = scalars_.size();
  std::copy(scalars_.begin(), scalars_.end(), tensors.scalars);
  tensors.scalars[given] = tensors.scalars[given + 1] = 0;  // set by each launch
  for (size_t s = 0; s < program_.bindings_.size(); ++s) {
    tensors.scalars[given + 2 + s] = static_cast<uint64_t>(symbols_[s]);
  }
  return scratch_bytes;
}

void Call::run(std::span<void* const> outputs, std::span<const std::byte> params) {
  PTO_ASSERT(outputs.size() == program_.outputs_.size());
  Tensors tensors;
  const Scratch scratch(describe(tensors));
  pto_tensor* next = tensors.all + inputs_.size();
  for (void* const output : outputs) next++->data = output;
  scratch.give({next, program_.temporaries_.size()});
  for (size_t i = 0; i < program_.launches_.size(); ++i) {
    start_launch(program_.spec_, measure(i), tensors.all, tensors.scalars, params);
  }
}

MeasuredLaunch Call::measure(size_t index) const {
  const Program::BoundLaunch& bound = program_.launches_[index];
  const LaunchSpec& spec = program_.spec_.launches[index];
  int64_t written = 0;
  for (const int tensor : spec.tensors) {
    const size_t output = static_cast<size_t>(tensor) - inputs_.size();
    if (tensor >= static_cast<int>(inputs_.size()) && output < program_.outputs_.size()) {
      written += output_bytes_[output];
    }
  }
  const int64_t items = bound.items.evaluate(symbols_);
  const int64_t bytes = items <= 0 ? 0 : bound.bytes.evaluate(symbols_);
  return {&spec,
          bound.function,
          bound.takes_all,
          items,
          bytes,
          written,
          static_cast<int32_t>(scalars_.size()),
          static_cast<int32_t>(scalars_.size() + 2 + program_.bindings_.size())};
}

}  // namespace pto
