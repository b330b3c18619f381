// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

constexpr const Operation* kOperations[] = {
#define PTO_OPERATION(op) &operations::op,
#include "pto/ir/operations/operations.def"
};

}  // namespace

const Operation& operation(Opcode op) {
  const auto index = static_cast<size_t>(op);
  PTO_ASSERT(index < std::size(kOperations));
  return *kOperations[index];
}

const OpcodeInfo& info(Opcode op) { return operation(op).info; }

std::optional<Opcode> parse_opcode(std::string_view name) {
  for (size_t i = 0; i < std::size(kOperations); ++i)
    if (kOperations[i]->info.name == name) return static_cast<Opcode>(i);
  return std::nullopt;
}

bool is_elementwise(Opcode op) { return operation(op).kernel == KernelForm::Element; }

}  // namespace pto
