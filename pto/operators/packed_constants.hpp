// SPDX-License-Identifier: Apache-2.0
// PackedConstants: the packed copies that one call of a program reads in place of its constants.
//
//     PackedConstants constants(program.spec());
//     constants.set_owner(i, owner);                       // of constant i, where it is known
//     call.set_params(constants.find(call.inputs()));      // keep `constants` until it has run
//
// They are those of weights.hpp, with its rules: a constant is packed when it is seen again
// unchanged. One that the program writes, or whose owner nobody knows, is not.
// Thread safety: belongs to one call.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/operators/weights.hpp"

namespace pto {

class PackedConstants {
 public:
  explicit PackedConstants(const ProgramSpec& spec);

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

}  // namespace pto
