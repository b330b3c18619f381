// SPDX-License-Identifier: Apache-2.0
// RunArguments: the arguments of a run from Python: arrays, which stay where they are, and numbers.
//
//     RunArguments arguments = read({{kInput, array, ""}, {kScalar, number, "int64"}});
//     arguments.tensors();
//
// The arrays of an ArgumentReader live as long as a call, are at most 16 and have element types of
// operators; those of a run may be many, of any type, and outlive the call that submits them.
// Errors: Error for an object that is no array in this machine's memory, and for a read-only
// output.
// Invariant: it keeps the arrays alive.
// Thread safety: read() needs Python's lock; the result may be used without it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "pto/abi/host.h"
#include "pto/tasks/cores/task.hpp"

namespace pto::bindings {

enum ParamType { kScalar, kInput, kOutput, kInout };

// (ParamType, array or number, element type of a number, "real" for a float without one; or
// "bfloat16" for an array of its bits)
using ArgumentList = std::vector<std::tuple<int, nanobind::object, std::string>>;

class RunArguments {
 public:
  void add(int type, nanobind::handle value, const std::string& dtype, size_t index);

  std::span<const pto_tensor> tensors() const { return tensors_; }
  Numbers scalars() const { return {scalars_, kinds_}; }
  // Converts the scalars to the kernel's parameters. Throws Error if they do not fit.
  void fit(const TaskKernel& kernel);

 private:
  void add_scalar(nanobind::handle value, const std::string& dtype);

  std::vector<std::vector<int64_t>> dims_;
  std::vector<pto_tensor> tensors_;
  std::vector<uint64_t> scalars_;
  std::vector<uint8_t> kinds_;
  std::vector<nanobind::ndarray<nanobind::ro, nanobind::device::cpu>> kept_;
};

RunArguments read(const ArgumentList& args);

}  // namespace pto::bindings
