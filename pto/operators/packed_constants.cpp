// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/packed_constants.hpp"

#include <algorithm>
#include <cstring>

#include "pto/abi/packed_right.h"

namespace pto {
namespace {

thread_local const ScopedWeightOwners* owners_here = nullptr;

// Copies by an operator have the numbers of operators as ways.
constexpr uint64_t kWay = uint64_t{1} << 32;

bool pack(const void* self, const pto_tensor_ref& weight, PackedWeight* to) {
  pto_packed_right packed = *static_cast<const pto_packed_right*>(self);
  int64_t matrices = 1;
  for (int32_t axis = 0; axis < weight.rank; ++axis)
    if (axis != packed.depth_axis && axis != packed.col_axis) matrices *= weight.sizes[axis];
  packed.data = to->take(matrices * packed.matrix_bytes);
  return packed.data && pto_pack_right(&packed) == 0;
}

std::shared_ptr<const PackedWeight> copy_of(const pto_packed_right& packed, DType dtype,
                                            const pto_weight_owner& owner) {
  const pto_tensor& x = packed.tensor;
  const pto_tensor_ref weight = {x.data, x.sizes, x.strides, x.rank, static_cast<int32_t>(dtype)};
  const auto axes = static_cast<uint64_t>(packed.depth_axis << 8 | packed.col_axis);
  return packed_weight({kWay | axes, packed.precision, &packed, &pack}, weight, owner);
}

}  // namespace

PackedConstants::PackedConstants(const ProgramSpec& spec) {
  for (const PackedSpec& one : spec.packed) {
    const bool is_written =
        std::any_of(spec.outputs.begin(), spec.outputs.end(), [&](const TensorSpec& output) {
          return output.writes == one.input || output.replaces == one.input;
        });
    constants_.push_back({one, is_written});
  }
}

PackedConstants::PackedConstants(const ProgramSpec& spec, const pto_operator_call& call)
    : PackedConstants(spec) {
  const ScopedWeightOwners* const here = owners_here;
  if (!here || &here->call_ != &call) return;
  for (size_t i = 0; i < constants_.size(); ++i) {
    pto_weight_owner owner;
    if (here->find_(here->self_, static_cast<size_t>(constants_[i].spec.input), &owner) != 0)
      set_owner(i, owner);
  }
}

ScopedWeightOwners::ScopedWeightOwners(const pto_operator_call& call, Find find, const void* self)
    : call_(call), find_(find), self_(self), before_(owners_here) {
  owners_here = this;
}

ScopedWeightOwners::~ScopedWeightOwners() { owners_here = before_; }

void PackedConstants::set_owner(size_t constant, const pto_weight_owner& owner) {
  constants_[constant].has_owner = true;
  constants_[constant].owner = owner;
}

std::vector<std::byte> PackedConstants::find(std::span<const pto_tensor> inputs) {
  std::vector<std::byte> params(constants_.size() * sizeof(pto_packed_right));
  for (size_t i = 0; i < constants_.size(); ++i) {
    const Constant& one = constants_[i];
    const pto_tensor& x = inputs[static_cast<size_t>(one.spec.input)];
    pto_packed_right packed = {
        PTO_PACKED_RIGHT_TAG, x, one.spec.depth_axis, one.spec.col_axis, 0, nullptr, 0};
    packed.precision = one.spec.precision != 0 ? one.spec.precision : pto_matmul_precision();
    if (one.has_owner && !one.is_written) packed.matrix_bytes = pto_packed_right_bytes(&packed);
    if (packed.matrix_bytes > 0) {
      const auto dtype = from_dlpack(x.type_code, x.type_bits, x.type_lanes);
      copies_.push_back(dtype ? copy_of(packed, *dtype, one.owner) : nullptr);
      if (copies_.back()) packed.data = copies_.back()->data();
    }
    std::memcpy(params.data() + i * sizeof packed, &packed, sizeof packed);
  }
  return params;
}

}  // namespace pto
