// SPDX-License-Identifier: Apache-2.0
// Registers every operator of the registry with PyTorch, for the CPU and the npu device: schema and
// kernel.
//
// PyTorch's stable C interface does not tell a kernel which operator it is, so each operator gets
// one of kSlots functions, stamped from a template. Nothing here takes Python's lock; only a first
// call with new dtypes, ranks or attributes compiles. Operators stand in PyTorch's namespace pto,
// those called "space::name" in that namespace.
// Thread safety: kernels may run on any thread; one thread at a time registers.
#include <array>
#include <map>
#include <string>
#include <utility>

#include "pto/abi/operator.h"
#include "pto/adapters/torch/error_text.hpp"
#include "pto/adapters/torch/invocation.hpp"
#include "pto/adapters/torch/operator_name.hpp"
#include "pto/base/error.hpp"

namespace pto::torch_adapter {
namespace {

void run(int32_t index, Boxed* stack, pto_operator_site* site) {
  Invocation(*pto_operator_at(index), stack, Invocation::Direct{site}).run();
}

constexpr int kSlots = 4096;

struct Slot {
  const pto_operator* op = nullptr;
  Invocation::Results results = Invocation::Results::New;
};
std::array<Slot, kSlots> slots;

template <size_t Place>
void trampoline(Boxed* stack, uint64_t, uint64_t) {
  Invocation(*slots[Place].op, stack, slots[Place].results).run();
}

template <size_t... Place>
constexpr std::array<BoxedKernel, kSlots> trampolines(std::index_sequence<Place...>) {
  return {&trampoline<Place>...};
}
constexpr auto kTrampolines = trampolines(std::make_index_sequence<kSlots>());

struct Libraries {
  LibraryObject *definitions = nullptr, *cpu = nullptr, *npu = nullptr;

  explicit Libraries(const std::string& space) {
    const char* file = "pto/adapters/torch/ops.cpp";
    check(aoti_torch_library_init_fragment(space.c_str(), file, 0, &definitions));
    check(aoti_torch_library_init_impl(space.c_str(), "CPU", file, 0, &cpu));
    check(aoti_torch_library_init_impl(space.c_str(), "PrivateUse1", file, 0, &npu));
  }
};

const Libraries& libraries_of(const pto_operator& op) {
  static std::map<std::string, Libraries> all;
  const std::string space = space_of(op);
  return all.try_emplace(space, space).first->second;
}

void register_operator(int32_t index, const char* schema, const int32_t* tags, int32_t n_tags,
                       Invocation::Results results) {
  static size_t used = 0;
  const pto_operator* op = pto_operator_at(index);
  if (!op)
    fail({"there is no operator " + std::to_string(index),
          "an operator gets its index when it is defined", "define the operator first"});
  if (used == kSlots || op->n_outputs > PTO_MAX_OUTPUTS) {
    fail({std::string(op->name) + ": cannot be registered with PyTorch",
          "there is room for " + std::to_string(kSlots) + " overloads of at most " +
              std::to_string(PTO_MAX_OUTPUTS) + " outputs",
          "define fewer operators, or return a Tensor[]"});
  }
  const Libraries& libraries = libraries_of(*op);
  check(torch_library_def_with_tags(libraries.definitions, schema, tags, n_tags));
  slots[used] = {op, results};
  const std::string name = std::string(schema).substr(0, std::string(schema).find('('));
  check(torch_library_impl(libraries.cpu, name.c_str(), kTrampolines[used], kShimVersion));
  check(torch_library_impl(libraries.npu, name.c_str(), kTrampolines[used], kShimVersion));
  ++used;
}

}  // namespace
}  // namespace pto::torch_adapter

// Declares an operator of the registry to PyTorch, with PyTorch's spelling of its schema and its
// numbers of tags; `into_out` if the schema is that of the overload "out". Returns null, or the
// text of the error.
extern "C" const char* pto_torch_register(int32_t index, const char* schema, const int32_t* tags,
                                          int32_t n_tags, int32_t into_out) {
  using namespace pto::torch_adapter;
  using Results = Invocation::Results;
  return error_text([&] {
    register_operator(index, schema, tags, n_tags, into_out ? Results::IntoOut : Results::New);
  });
}

// The address of run(index, stack, site), which takes the arguments of an operator off a stack and
// puts its results there, without PyTorch's dispatcher; see Invocation::Direct.
extern "C" const void* pto_torch_run_address() {
  return reinterpret_cast<const void*>(&pto::torch_adapter::run);
}
