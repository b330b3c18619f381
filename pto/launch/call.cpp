// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/call.hpp"

#include <algorithm>

#include "pto/abi/program.h"
#include "pto/base/machine.hpp"
#include "pto/base/meeting.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/launch.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/recording.hpp"
#include "pto/launch/signature.hpp"
#include "pto/launch/staging.hpp"

namespace pto {
namespace {

constexpr int64_t kAlignment = 64;

// Returns the bytes of a dense tensor, or -1 where they leave 64 bits.
int64_t dense_bytes(const int64_t* sizes, int32_t rank, int item_bytes) {
  int64_t total = item_bytes;
  bool overflow = false;
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis] == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(total, sizes[axis], &total);
  }
  return overflow || total > INT64_MAX - kAlignment ? -1 : total;
}

// A kernel reports what, why and fix as three lines; a text from elsewhere may have one line.
[[noreturn]] void fail_with_report(const std::string& name, const std::string& report,
                                   int32_t code) {
  const size_t first = report.find('\n'), second = report.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    fail({name + ": the kernel failed: " + report, "a kernel reports what it cannot compute",
          "check the arguments of this call"},
         ErrorKind::Runtime);
  }
  fail({name + ": " + report.substr(0, first), report.substr(first + 1, second - first - 1),
        report.substr(second + 1)},
       code == PTO_FAILED_POSITION ? ErrorKind::Position : ErrorKind::Runtime);
}

// Says whether both are the same elements without gaps, in the same order.
bool is_same(const pto_tensor_ref& a, const pto_tensor_ref& b) {
  return a.data == b.data && a.dtype == b.dtype && is_contiguous(b.rank, b.sizes, b.strides) &&
         std::equal(a.sizes, a.sizes + a.rank, b.sizes, b.sizes + b.rank);
}

}  // namespace

int32_t block_count(int64_t items, int64_t bytes, int64_t quantum, int threads,
                    int64_t grain_bytes) {
  // Each thread gets a block of some length; several, which even out what slows one down, where
  // they are long: a block costs about 0.2 us by itself.
  constexpr int64_t kShortBytes = 32 << 10, kLongBytes = 256 << 10;
  constexpr int64_t kBlocksPerThread = 4;
  if (threads <= 1 || bytes <= grain_bytes) return 1;
  const int64_t units = items / quantum + (items % quantum != 0);
  const int64_t wanted = std::max(std::min<int64_t>(bytes / kShortBytes, threads),
                                  std::min(bytes / kLongBytes, kBlocksPerThread * threads));
  return static_cast<int32_t>(std::max<int64_t>(std::min(wanted, units), 1));
}

bool is_elementwise(const ProgramSpec& spec) {
  return spec.launches.size() == 1 && spec.launches[0].is_elementwise;
}

bool may_write_in_place(const ProgramSpec& spec, size_t output,
                        std::span<const pto_tensor_ref> inputs) {
  const auto written = static_cast<size_t>(spec.outputs[output].writes);
  const pto_tensor_ref& to = inputs[written];
  const bool is_by_element = is_elementwise(spec);
  const bool goes_on = spec.outputs[output].replaces == spec.outputs[output].writes;
  const bool is_free = goes_on || !spec.inputs[written].is_read || is_by_element;
  const StrideClass lies = stride_class(to.sizes, to.strides, to.rank);
  const bool follows =
      lies == StrideClass::Contiguous || (goes_on && lies <= spec.outputs[output].strides &&
                                          is_injective(to.rank, to.sizes, to.strides));
  if (!is_free || !follows) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_written = std::any_of(spec.outputs.begin(), spec.outputs.end(), [i](auto& one) {
      return one.writes == static_cast<int>(i);
    });
    if (i == written || (is_by_element && !is_written && is_same(to, inputs[i]))) continue;
    if (overlap(address_range(to), address_range(inputs[i])) && may_meet(to, inputs[i]))
      return false;
  }
  return true;
}

Call::Call(const Program& program, std::span<const pto_tensor_ref> inputs,
           std::span<const uint64_t> scalars, std::vector<std::byte> params)
    : program_(program),
      n_inputs_(program.n_inputs_),
      n_outputs_(program.n_outputs_),
      n_scalars_(program.n_scalars_ + 2 + program.bindings_.size()),
      tensors_(program.tensors_.size()),
      numbers_(program.n_numbers_),
      scalars_(n_scalars_),
      symbols_(reinterpret_cast<const int64_t*>(scalars_.data() + program.n_scalars_ + 2)),
      launches_(program.launches_.size()),
      params_(std::move(params)) {
  PTO_ASSERT(inputs.size() == n_inputs_ && scalars.size() == program.n_scalars_);
  add_inputs(inputs);
  add_scalars(scalars);
  check_sizes();
  add_made_tensors();
  measure_launches();
}

void Call::add_inputs(std::span<const pto_tensor_ref> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const pto_tensor_ref& input = inputs[i];
    const Program::BoundTensor& bound = program_.tensors_[i];
    PTO_ASSERT(input.rank == bound.rank && dtype_of(input) == program_.spec_.inputs[i].dtype);
    int64_t* const sizes = &numbers_[bound.numbers];
    int64_t* const strides = sizes + input.rank;
    if (input.strides == nullptr) dense_strides(input.rank, input.sizes, strides);
    for (int32_t axis = 0; axis < input.rank; ++axis) {  // std::copy would call memmove
      sizes[axis] = input.sizes[axis];
      if (input.strides != nullptr) strides[axis] = input.strides[axis];
    }
    uint32_t flags = PTO_TENSOR_READ_ONLY;
    int64_t extent = -1;
    if (program_.spec_.inputs[i].strides == StrideClass::Contiguous) {
      flags |= PTO_TENSOR_CONTIGUOUS;
      extent = dense_bytes(sizes, input.rank, bound.item_bytes);
    }
    tensors_[i] = {input.data,      sizes, strides, input.rank, bound.type.code,
                   bound.type.bits, 1,     flags,   extent};
  }
}

void Call::add_scalars(std::span<const uint64_t> scalars) {
  uint64_t* next = std::copy(scalars.begin(), scalars.end(), scalars_.data());
  next = std::fill_n(next, 2, 0);  // set by each launch
  for (const Program::Binding& from : program_.bindings_) {
    const int64_t size = from.input < 0 ? 0 : tensors_[from.input].sizes[from.axis];
    *next++ = static_cast<uint64_t>(size);
  }
}

void Call::check_sizes() const {
  for (const Program::Check& check : program_.checks_) {
    const int64_t actual = tensors_[check.input].sizes[check.axis];
    if (actual != value_of(check.expected)) [[unlikely]] {
      fail_check(check.input, check.axis, check.expected);
    }
  }
  for (size_t i = 0; i < program_.guards_.size(); ++i) {
    const auto& [a, b] = program_.guards_[i];
    if (value_of(a) != value_of(b)) [[unlikely]]
      fail_guard(i);
  }
}

// Describes outputs and temporaries; run_all() gives them memory.
void Call::add_made_tensors() {
  for (size_t i = n_inputs_; i < program_.tensors_.size(); ++i) {
    const Program::BoundTensor& bound = program_.tensors_[i];
    int64_t* const sizes = &numbers_[bound.numbers];
    for (size_t axis = 0; axis < bound.sizes.size(); ++axis) {
      sizes[axis] = value_of(bound.sizes[axis]);
      if (sizes[axis] < 0) [[unlikely]]
        fail_negative(i, axis);
    }
    int64_t size = dense_bytes(sizes, bound.rank, bound.item_bytes);
    bool is_too_large = size < 0;
    if (i >= n_inputs_ + n_outputs_) {
      size = (size + kAlignment - 1) / kAlignment * kAlignment;
      is_too_large |= __builtin_add_overflow(scratch_bytes_, size, &scratch_bytes_);
    }
    if (is_too_large) [[unlikely]] {
      fail({program_.spec_.name + ": " + name_of(i) + " would have more than 2^63 bytes",
            "sizes and byte counts are 64-bit numbers", "pass smaller tensors"});
    }
    dense_strides(bound.rank, sizes, sizes + bound.rank);
    tensors_[i] = {nullptr,         sizes, sizes + bound.rank,    bound.rank, bound.type.code,
                   bound.type.bits, 1,     PTO_TENSOR_CONTIGUOUS, size};
  }
}

void Call::measure_launches() {
  for (size_t i = 0; i < program_.launches_.size(); ++i) {
    const Program::BoundLaunch& bound = program_.launches_[i];
    int64_t written = 0;
    for (const int tensor : program_.spec_.launches[i].tensors) {
      const size_t output = static_cast<size_t>(tensor) - n_inputs_;
      if (tensor >= static_cast<int>(n_inputs_) && output < n_outputs_) {
        written += outputs()[output].extent_bytes;
      }
    }
    const int64_t items = value_of(bound.items);
    launches_[i] = {items, items <= 0 ? 0 : value_of(bound.bytes), written};
  }
}

void Call::lay_over_input(size_t output) {
  const TensorSpec& spec = program_.spec_.outputs[output];
  PTO_ASSERT(spec.replaces >= 0 && spec.strides != StrideClass::Contiguous);
  pto_tensor& tensor = tensors_[n_inputs_ + output];
  tensor.strides = tensors_[static_cast<size_t>(spec.replaces)].strides;
  tensor.flags &= ~uint32_t{PTO_TENSOR_CONTIGUOUS};
  tensor.extent_bytes = -1;  // unknown
}

void Call::run(std::span<void* const> outputs) {
  run_all(tensors_.data(), scalars_.data(), outputs, params_);
}

void Call::run(std::span<void* const> inputs, std::span<void* const> outputs,
               std::span<const std::byte> params) const {
  PTO_ASSERT(inputs.size() == n_inputs_);
  const size_t n_tensors = program_.tensors_.size();
  FewOrMany<pto_tensor, 8> tensors(n_tensors);
  FewOrMany<uint64_t, 16> scalars(n_scalars_);
  std::copy_n(tensors_.data(), n_tensors, tensors.data());
  std::copy_n(scalars_.data(), n_scalars_, scalars.data());
  for (size_t i = 0; i < n_inputs_; ++i) tensors[i].data = inputs[i];
  run_all(tensors.data(), scalars.data(), outputs, params);
}

void Call::run_all(pto_tensor* tensors, uint64_t* scalars, std::span<void* const> outputs,
                   std::span<const std::byte> params) const {
  PTO_ASSERT(outputs.size() == n_outputs_);
  const Memory scratch(program_.spec_.name.c_str(), scratch_bytes_);
  char* free = static_cast<char*>(scratch.data());
  for (size_t i = 0; i < n_outputs_; ++i) tensors[n_inputs_ + i].data = outputs[i];
  for (size_t i = n_inputs_ + n_outputs_; i < program_.tensors_.size(); ++i) {
    tensors[i].data = free;
    free += tensors[i].extent_bytes;
  }
  const RecordScope whole(SpanKind::Call, -1);
  for (size_t i = 0; i < program_.launches_.size(); ++i) run_one(i, tensors, scalars, params);
}

// Runs a launch on these tensors of the program; writes its own two of `scalars`.
void Call::run_one(size_t launch, const pto_tensor* tensors, uint64_t* scalars,
                   std::span<const std::byte> params) const {
  const Launch& sizes = launches_[launch];
  if (sizes.items <= 0) return;
  const LaunchSpec& spec = program_.spec_.launches[launch];
  const Program::BoundLaunch& bound = program_.launches_[launch];
  pto_tensor picked[PTO_MAX_BUFFERS];
  for (size_t t = 0; !bound.takes_all && t < spec.tensors.size(); ++t) {
    if (spec.tensors[t] != kAbsentTensor) {
      picked[t] = tensors[spec.tensors[t]];
      continue;
    }
    picked[t] = {};
    picked[t].flags = PTO_TENSOR_ABSENT;
  }
  const size_t given = program_.n_scalars_;
  scalars[given] = static_cast<uint64_t>(sizes.items);
  scalars[given + 1] = static_cast<uint64_t>(spec.quantum);
  const Machine& here = machine();
  pto_args args = args_of({bound.takes_all ? tensors : picked, spec.tensors.size()},
                          {scalars, n_scalars_}, params);
  if (sizes.written_bytes >= here.stream_bytes) args.flags = PTO_LAUNCH_STREAM;
  if (spec.params != nullptr) args.params = spec.params;
  if (spec.is_program) {
    const int32_t code = run_program(bound.function, args);
    if (code == 0) return;
    fail_with_report(program_.spec_.name, pto_last_error(), code);
  }
  const RecordScope span(SpanKind::Statement, static_cast<int32_t>(launch));
  const int32_t blocks =
      block_count(sizes.items, sizes.bytes, spec.quantum, num_threads(), here.grain_bytes);
  const int32_t code = pto_launch(bound.function, &args, blocks);
  if (code == 0) [[likely]]
    return;
  fail_with_report(program_.spec_.name, pto_last_error(), code);
}

const std::string& Call::name_of(size_t tensor) const {
  const ProgramSpec& spec = program_.spec_;
  if (tensor < n_inputs_) return spec.inputs[tensor].name;
  const size_t made = tensor - n_inputs_;
  return made < n_outputs_ ? spec.outputs[made].name : spec.temporaries[made - n_outputs_].name;
}

// Explains a size: "s1*2, where s1 is axis 0 of y = 4".
std::string Call::origin(const Dim& dim) const {
  if (dim.is_constant()) return text(dim);
  std::string all = dim.is_symbol() ? "" : text(dim) + ", where ";
  std::vector<int64_t> seen;
  each_symbol(dim, [&](int64_t symbol) {
    if (std::find(seen.begin(), seen.end(), symbol) != seen.end()) return;
    const Program::Binding& from = program_.bindings_[static_cast<size_t>(symbol)];
    all += (seen.empty() ? "s" : ", s") + std::to_string(symbol) + " = " +
           std::to_string(symbols_[symbol]) + " is axis " + std::to_string(from.axis) + " of " +
           name_of(static_cast<size_t>(from.input));
    seen.push_back(symbol);
  });
  return all;
}

// Explains sizes that are not known ahead: "; s0 = 3 is axis 0 of x; s1 = 4 is axis 0 of y".
std::string Call::origins(std::initializer_list<const SizeProgram*> sizes) const {
  std::string all;
  for (const SizeProgram* size : sizes)
    if (!size->dim().is_constant()) all += "; " + origin(size->dim());
  return all;
}

// Computes a size; an error names the function.
int64_t Call::value_of(const SizeProgram& size) const {
  try {
    return size.evaluate(symbols_);
  } catch (const Error& error) {
    const ErrorText& text = error.text();
    fail({program_.spec_.name + ": " + text.what, text.why, text.fix}, error.kind());
  }
}

void Call::fail_check(int input, int axis, const SizeProgram& expected) const {
  const std::string& name = name_of(static_cast<size_t>(input));
  const int64_t wanted = expected.evaluate(symbols_);
  fail({program_.spec_.name + ": axis " + std::to_string(axis) + " of " + name + " has size " +
            std::to_string(tensors_[static_cast<size_t>(input)].sizes[axis]) + ", but " +
            std::to_string(wanted) + " is required",
        expected.dim().is_constant() ? "the kernel was compiled for this size"
                                     : "the sizes must be equal" + origins({&expected}),
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
               "they must be equal" + origins({&a, &b}),
               "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1"})
      .at(spec.location);
}

void Call::fail_negative(size_t tensor, size_t axis) const {
  const SizeProgram& size = program_.tensors_[tensor].sizes[axis];
  fail({program_.spec_.name + ": axis " + std::to_string(axis) + " of the result would be " +
            std::to_string(size.evaluate(symbols_)) + " = " + origin(size.dim()),
        "sizes are not negative", "pass larger tensors"});
}

}  // namespace pto
