// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/prepared_call.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "pto/base/error.hpp"
#include "pto/base/meeting.hpp"
#include "pto/launch/staging.hpp"
#include "pto/operators/operator.hpp"

namespace pto {
namespace {

// Compares in line: a call costs more than a few comparisons.
bool same(const int64_t* a, const int64_t* b, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Asks the caller for the memory of a tensor of an output.
void* allocate(const pto_operator_call& call, int output, int member, const pto_tensor& about,
               DType dtype) {
  void* const memory = call.allocate(call.user, output, member, about.sizes, about.rank,
                                     static_cast<int32_t>(dtype));
  if (memory) return memory;
  fail({std::string(call.op->name) + ": no memory for output " + std::to_string(output) + " of " +
            std::to_string(about.extent_bytes) + " bytes",
        "the host could not allocate it", "use smaller tensors or free memory"},
       ErrorKind::Runtime);
}

AddressRange range_of(const pto_tensor& dense, const void* data) {
  const auto first = reinterpret_cast<uintptr_t>(data);
  if (dense.extent_bytes == 0) return {};
  return {first, first + static_cast<uintptr_t>(dense.extent_bytes)};
}

}  // namespace

PreparedCall::PreparedCall(const pto_operator_call& call)
    : PreparedCall(call, CallArguments(call, CallArguments::Reads::Values)) {}

PreparedCall::PreparedCall(const pto_operator_call& call, CallArguments&& arguments)
    : op_(*call.op),
      owner_(operator_at(call.op->index).kernels_owner),
      n_given_(arguments.given()),
      gaps_(take_gaps(op_, arguments)),
      call_(program_of(op_, arguments), arguments.tensors(), arguments.scalars(),
            arguments.take_params()) {
  std::copy(arguments.counts().begin(), arguments.counts().end(), counts_.begin());
  const auto is_list = [](const pto_operator_output& one) { return one.is_list != 0; };
  if (std::any_of(op_.outputs, op_.outputs + op_.n_outputs, is_list)) count_members(call);
  if (call.in_place != nullptr) lay_over_inputs();
}

// Lets outputs lie where the arguments do that they replace, if those have gaps that the code
// follows.
void PreparedCall::lay_over_inputs() {
  const std::vector<TensorSpec>& outputs = call_.program().spec().outputs;
  size_t next = 0;
  for (int output = 0; output < op_.n_outputs; next += members_of(output++)) {
    const pto_operator_output& about = op_.outputs[output];
    if (about.replaces < 0 || about.is_list != 0) continue;
    const TensorSpec& spec = outputs[next];
    if (spec.strides == StrideClass::Contiguous || spec.replaces != tensor_of(about.replaces))
      continue;
    const pto_tensor& input = call_.inputs()[static_cast<size_t>(spec.replaces)];
    if (is_contiguous(input.rank, input.sizes, input.strides) ||
        !is_injective(input.rank, input.sizes, input.strides))
      continue;
    call_.lay_over_input(next);
    laid_over_.set(next);
  }
}

// Returns the place of an argument, which is no list, among the tensors.
int PreparedCall::tensor_of(int32_t argument) const {
  int tensor = 0, place = 0;
  for (int32_t i = 0; i < argument; ++i)
    if (op_.arguments[i].kind <= PTO_KIND_TENSOR_LIST) tensor += counts_[size_t(place++)];
  return tensor;
}

size_t PreparedCall::members_of(int output) const {
  return members_.empty() ? 1 : size_t(members_[size_t(output)]);
}

const Program& PreparedCall::program_of(const pto_operator& op, const CallArguments& arguments) {
  Operator& self = operator_at(op.index);
  const auto compile = [&] {
    arguments.check_types();
    const std::vector<AttributeValue> attributes = arguments.attributes();
    return make_kernel({op.index, arguments.signature(), attributes, arguments.counts()});
  };
  return self.last_kernel.get(self.kernels_owner, arguments.signature(), compile);
}

// Notes the strides of tensors with gaps, of which a native kernel that takes none gets copies, and
// leaves them out of `arguments`.
std::vector<PreparedCall::Gaps> PreparedCall::take_gaps(const pto_operator& op,
                                                        CallArguments& arguments) {
  std::vector<Gaps> gaps;
  const Operator& self = operator_at(op.index);
  if (!self.is_native || self.takes_strides) return gaps;
  for (size_t i = 0; i < arguments.given(); ++i) {
    pto_tensor_ref& tensor = arguments.tensor(i);
    if (is_contiguous(tensor.rank, tensor.sizes, tensor.strides)) continue;
    std::copy_n(tensor.strides, tensor.rank, gaps.emplace_back(Gaps{i, {}}).strides.begin());
    tensor.strides = nullptr;
  }
  return gaps;
}

// Sets the number of tensors in each output: what the other outputs leave if one is a list, else
// the number that infer gave.
void PreparedCall::count_members(const pto_operator_call& call) {
  members_.assign(static_cast<size_t>(op_.n_outputs), 1);
  int lists = 0, list = 0;
  for (int i = 0; i < op_.n_outputs; ++i) {
    if (op_.outputs[i].is_list == 0) continue;
    ++lists;
    list = i;
  }
  if (lists == 1) {
    members_[static_cast<size_t>(list)] =
        static_cast<int32_t>(given_outputs()) - (op_.n_outputs - 1);
    return;
  }
  const pto_shapes* shapes = pto_operator_shapes(&call);
  if (!shapes) throw std::runtime_error(pto_operator_error());
  members_.assign(shapes->counts, shapes->counts + op_.n_outputs);
}

// Counts the program's outputs, without those through which the kernel reports row counts.
size_t PreparedCall::given_outputs() const {
  return call_.outputs().size() - BoundedRows::count_in(op_);
}

const PreparedCall::Gaps* PreparedCall::gaps_of(size_t input) const {
  const auto is_its = [input](const Gaps& one) { return one.input == input; };
  const auto found = std::find_if(gaps_.begin(), gaps_.end(), is_its);
  return found == gaps_.end() ? nullptr : &*found;
}

bool PreparedCall::fits(const pto_operator_call& call) const {
  if (owner_ != operator_at(op_.index).kernels_owner.load(std::memory_order_relaxed)) return false;
  for (int32_t i = 0; i < op_.n_tensors; ++i) {
    if ((call.counts ? call.counts[i] : 1) != counts_[static_cast<size_t>(i)]) return false;
  }
  for (size_t i = 0; i < n_given_; ++i) {
    const pto_tensor_ref& tensor = call.tensors[i];
    const pto_tensor& known = call_.inputs()[i];
    if (tensor.rank != known.rank || dtype_of(tensor) != call_.program().spec().inputs[i].dtype)
      return false;
    if (!same(known.sizes, tensor.sizes, known.rank)) return false;
    const Gaps* const gaps = gaps_of(i);
    if (tensor.strides == nullptr) {
      if (gaps != nullptr || !(known.flags & PTO_TENSOR_CONTIGUOUS)) return false;
    } else if (!same(gaps ? gaps->strides.data() : known.strides, tensor.strides, known.rank)) {
      return false;
    }
  }
  return true;
}

CallMemory PreparedCall::memory(const pto_operator_call& call) const {
  CallMemory memory(call);
  for (size_t i = 0; i < call_.inputs().size(); ++i)
    memory.inputs[i] = i < n_given_ ? call.tensors[i].data : nullptr;  // a SymInt has no memory
  size_t next = 0;
  for (int output = 0; output < op_.n_outputs; ++output) {
    const auto members = static_cast<int>(members_of(output));
    for (int member = 0; member < members; ++member, ++next) {
      memory.outputs[next] = laid_over_[next]
                                 ? call.in_place(call.user, output)
                                 : allocate(call, output, member, call_.outputs()[next],
                                            call_.program().spec().outputs[next].dtype);
    }
  }
  PTO_ASSERT(next == given_outputs());
  const ProgramSpec& spec = call_.program().spec();
  if (!spec.packed.empty()) memory.constants = PackedConstants(spec, call);
  return memory;
}

pto_tensor_ref PreparedCall::input_at(size_t input, void* data) const {
  const pto_tensor& known = call_.inputs()[input];
  const Gaps* const gaps = gaps_of(input);
  return {data, known.sizes, gaps ? gaps->strides.data() : known.strides, known.rank,
          static_cast<int32_t>(call_.program().spec().inputs[input].dtype)};
}

pto_tensor_ref PreparedCall::output_at(size_t output, void* data) const {
  const pto_tensor& known = call_.outputs()[output];
  return {data, known.sizes, laid_over_[output] ? known.strides : nullptr, known.rank,
          static_cast<int32_t>(call_.program().spec().outputs[output].dtype)};
}

// Says whether an output may be written over this input if both have the same memory.
bool PreparedCall::may_replace(size_t output, size_t input) const {
  const ProgramSpec& spec = call_.program().spec();
  if (laid_over_[output]) return spec.outputs[output].replaces == static_cast<int>(input);
  const pto_tensor &from = call_.inputs()[input], &to = call_.outputs()[output];
  const bool goes_on = spec.outputs[output].replaces == static_cast<int>(input);
  return (goes_on || is_elementwise(spec)) && from.type_bits == to.type_bits &&
         from.rank == to.rank && same(from.sizes, to.sizes, to.rank) &&
         (from.flags & PTO_TENSOR_CONTIGUOUS) != 0;
}

// Says whether an output's memory holds something that is still to be read, or is misaligned.
bool PreparedCall::must_stand_aside(size_t output, const CallMemory& memory) const {
  const pto_tensor_ref to = output_at(output, memory.outputs[output]);
  const AddressRange range = laid_over_[output]
                                 ? address_range(to)
                                 : range_of(call_.outputs()[output], memory.outputs[output]);
  if (range.first == range.end) return false;
  if (!is_aligned(to.data, dtype_of(to))) return true;
  for (size_t i = 0; i < n_given_; ++i) {
    const pto_tensor& input = call_.inputs()[i];
    const bool is_dense = (input.flags & PTO_TENSOR_CONTIGUOUS) != 0;
    const pto_tensor_ref from = input_at(i, memory.inputs[i]);
    const AddressRange read = is_dense ? range_of(input, memory.inputs[i]) : address_range(from);
    if (!overlap(range, read)) continue;
    if (memory.inputs[i] == memory.outputs[output] && may_replace(output, i)) continue;
    if (!laid_over_[output] || may_meet(to, from)) return true;
  }
  return false;
}

std::vector<std::byte> PreparedCall::packed_params(CallMemory* memory) const {
  std::vector<pto_tensor> inputs(call_.inputs().begin(), call_.inputs().end());
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].data = memory->inputs[i];
  return memory->constants.find(inputs);
}

void PreparedCall::run(CallMemory* memory) const {
  CallMemory& here = *memory;
  Staging staging(op_.name);
  for (size_t i = 0; i < n_given_; ++i) {
    const pto_tensor_ref input = input_at(i, here.inputs[i]);
    if (gaps_of(i))
      here.inputs[i] = staging.copy_of(input);
    else if (!is_aligned(input.data, dtype_of(input)))
      here.inputs[i] = staging.moved(input);
  }
  const size_t count = given_outputs();
  for (size_t i = 0; i < count; ++i) {
    if (must_stand_aside(i, here))
      here.outputs[i] = staging.in_place_of(output_at(i, here.outputs[i]), laid_over_[i]);
  }
  here.rows.place(here.outputs.data() + count);
  const std::span<void*const> inputs(here.inputs.data(), call_.inputs().size()),
      outputs(here.outputs.data(), call_.outputs().size());
  if (here.constants.empty())
    call_.run(inputs, outputs);
  else
    call_.run(inputs, outputs, packed_params(&here));
  staging.finish();
  here.rows.report([this](int output) { return call_.output_sizes(output)[0]; });
}

}  // namespace pto
