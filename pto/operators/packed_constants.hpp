// SPDX-License-Identifier: Apache-2.0
// PackedConstants: the packed copies that one call of a program reads in place of its constants.
//
//     PackedConstants constants(program.spec());
//     constants.set_owner(i, owner);                       // of constant i, where it is known
//     call.set_params(constants.find(call.inputs()));      // keep `constants` until it has run
//
// An adapter that runs an operator tells the owners of its tensors, for those that the operator
// names as constants:
//
//     const ScopedWeightOwners owners(call, owner_of, this);   // around pto_operator_run(&call)
//
// The copies follow the rules of weights.hpp: a constant is packed when a call sees it again
// unchanged. A constant that the program writes, or whose owner nobody knows, is not packed.
// Thread safety: belongs to one call.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "pto/abi/host.h"
#include "pto/abi/operator.h"
#include "pto/base/program_spec.hpp"
#include "pto/operators/weights.hpp"

namespace pto {

class PackedConstants {
 public:
  PackedConstants() = default;
  explicit PackedConstants(const ProgramSpec& spec);
  // With the owners that the adapter told for this call.
  PackedConstants(const ProgramSpec& spec, const pto_operator_call& call);

  bool empty() const { return constants_.empty(); }
  void set_owner(size_t constant, const pto_weight_owner& owner);

  // Returns the params of a program, a record of abi/packed_right.h for each constant. It may pack.
  std::vector<std::byte> find(std::span<const pto_tensor> inputs);

 private:
  struct Constant {
    PackedSpec spec;
    bool is_written;
    bool has_owner = false;
    pto_weight_owner owner = {};
  };
  std::vector<Constant> constants_;
  std::vector<std::shared_ptr<const PackedWeight>> copies_;
};

class ScopedWeightOwners {
 public:
  // Returns 0 where nothing is known of the owner of a tensor of the call.
  using Find = int32_t (*)(const void* self, size_t tensor, pto_weight_owner* owner);

  ScopedWeightOwners(const pto_operator_call& call, Find find, const void* self);
  ScopedWeightOwners(const ScopedWeightOwners&) = delete;
  ScopedWeightOwners& operator=(const ScopedWeightOwners&) = delete;
  ~ScopedWeightOwners();

 private:
  friend class PackedConstants;
  const pto_operator_call& call_;
  const Find find_;
  const void* const self_;
  const ScopedWeightOwners* const before_;
};

}  // namespace pto
