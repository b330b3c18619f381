// SPDX-License-Identifier: Apache-2.0
// NestKeys: texts that are equal for equal loop nests.
//
//     const NestKeys keys(graph);
//     keys.of(sum);               // "[s0, s1]/1" for the sum of f32[s0, s1] along its last axis
//
// Thread safety: immutable.
#pragma once

#include <string>

#include "pto/ir/verify.hpp"

namespace pto {

class NestKeys {
 public:
  explicit NestKeys(const Graph& graph);  // which outlives it

  std::string of_space(const Dims& space) const;
  std::string of(const Node& reduction) const;

 private:
  const Graph& graph_;
  const EqualSizes equal_;
};

// Says whether a node folds elements: not along axes of size 1 alone.
bool folds(const Graph& graph, const Node& node);

}  // namespace pto
