// SPDX-License-Identifier: Apache-2.0
#include "pto/abi/guid.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pto/base/machine.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/call.hpp"
#include "pto/launch/launch.hpp"
#include "pto/launch/number.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/staging.hpp"
#include "pto/operators/last_error.hpp"

namespace pto {
namespace {

struct NamedKernel {
  pto_kernel function;
  uint32_t flags;
  bool is_taken_twice = false;
};

struct GuidTable {
  std::shared_mutex mutex;
  std::map<std::string, NamedKernel, std::less<>> kernels;
};

GuidTable& table() {
  static GuidTable* const it = new GuidTable;  // outlives every thread
  return *it;
}

void add(const char* name, pto_kernel kernel, uint32_t flags) {
  if (!name || !*name || !kernel) {
    fail({std::string("a guid ") + (name && *name ? name : "without a name") +
              (kernel ? "" : " without a kernel"),
          "a guid is the name of a kernel", "pass a name and a kernel"});
  }
  const std::unique_lock lock(table().mutex);
  const auto [place, is_new] = table().kernels.emplace(name, NamedKernel{kernel, flags});
  if (is_new) return;
  place->second.is_taken_twice = true;
  fail({std::string("guid ") + name + ": is registered twice",
        "a name belongs to one kernel for the life of the process; the registry now refuses it",
        "choose another name for one of them"});
}

std::string known_names() {
  std::string names;
  for (const auto& [name, kernel] : table().kernels) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

[[noreturn]] void fail_in(const pto_guid_call& call, const std::string& what, std::string why,
                          std::string fix) {
  fail({std::string(call.caller) + ": " + what, std::move(why), std::move(fix)});
}

NamedKernel find(const pto_guid_call& call) {
  const std::string guid = call.guid;
  std::string typed = guid;
  for (int32_t i = 0; i < call.n_tensors && typed == guid; ++i) {
    if (call.tensors[i].sizes) typed += "_" + std::string(name(dtype_of(call.tensors[i])));
  }
  const std::shared_lock lock(table().mutex);
  const auto& kernels = table().kernels;
  auto found = kernels.find(guid);
  if (found == kernels.end()) found = kernels.find(typed);
  if (found == kernels.end()) {
    fail_in(call, "there is no kernel " + guid + (typed == guid ? "" : ", nor " + typed),
            "a guid names a kernel that PTO_GUID registered; those are " + known_names(),
            "load the library that has the kernel, or correct the name");
  }
  if (found->second.is_taken_twice) {
    fail_in(call, "guid " + found->first + " is registered twice",
            "the name does not say which of the two kernels is meant",
            "choose another name for one of them");
  }
  return found->second;
}

// One call: tensors as the kernel takes them. Nothing of it is kept for the next: a guid has no
// schema by which a later call could be known to be alike.
class GuidRun {
 public:
  explicit GuidRun(const pto_guid_call& call)
      : call_(call), kernel_(find(call)), staging_(call.caller) {
    given_.reserve(static_cast<size_t>(call.n_tensors));  // never moves: tensors_ points into it
    for (int32_t i = 0; i < call.n_tensors; ++i) take(call.tensors[i], i >= call.n_inputs);
  }

  void run() {
    const std::vector<uint64_t> slots = scalars();
    const pto_args args = args_of(
        tensors_, slots,
        {static_cast<const std::byte*>(call_.params), static_cast<size_t>(call_.params_bytes)});
    if (pto_launch(kernel_.function, &args, blocks()) != 0) {
      // The kernel's own text says what, why and fix.
      throw std::runtime_error(std::string(call_.caller) + ": " + call_.guid + ": " +
                               pto_last_error());
    }
    staging_.finish();
  }

 private:
  struct Given {
    pto_tensor_ref tensor;                    // as the kernel takes it
    std::array<int64_t, PTO_MAX_RANK> dense;  // row-major strides
    bool is_output;
  };

  std::vector<uint64_t> scalars() const {
    std::vector<uint64_t> slots(call_.scalars, call_.scalars + call_.n_scalars);
    const auto numbers =
        call_.scalar_kinds == nullptr ? std::nullopt : exported_numbers(kernel_.function);
    const std::string callee = std::string(call_.caller) + ": " + call_.guid;
    for (size_t i = 0; numbers && i < std::min(slots.size(), numbers->size()); ++i)
      slots[i] = slot_for((*numbers)[i], {slots[i], call_.scalar_kinds[i]}, {callee.c_str(), i});
    return slots;
  }

  void take(const pto_tensor_ref& tensor, bool is_output) {
    Given& one = given_.emplace_back(Given{tensor, {}, is_output});
    pto_tensor& plain = tensors_.emplace_back();
    if (tensor.sizes == nullptr) {
      plain.flags = PTO_TENSOR_ABSENT;
      return;
    }
    check(tensor);
    dense_strides(tensor.rank, tensor.sizes, one.dense.data());
    const bool must_be_dense = !(kernel_.flags & PTO_GUID_TAKES_STRIDES) &&
                               !is_contiguous(tensor.rank, tensor.sizes, tensor.strides);
    const bool must_move = must_be_dense || (is_output && must_stand_aside(one));
    if (must_move) {
      one.tensor.data = is_output ? staging_.in_place_of(tensor) : staging_.copy_of(tensor);
    }
    if (must_move || tensor.strides == nullptr) one.tensor.strides = one.dense.data();
    describe(one, &plain);
  }

  void check(const pto_tensor_ref& tensor) const {
    const std::string name = "tensor " + std::to_string(given_.size() - 1);
    if (tensor.rank < 0 || tensor.rank > PTO_MAX_RANK) {
      fail_in(call_, name + " has " + std::to_string(tensor.rank) + " dimensions",
              "a tensor has 0 to " + std::to_string(PTO_MAX_RANK),
              "pass its rank, or reshape it to fewer dimensions");
    }
    if (tensor.data != nullptr || element_bytes(tensor) == 0) return;
    fail_in(call_, name + " has no memory", "a kernel reads and writes elements",
            "pass a tensor with data");
  }

  // Says whether an output's memory holds something that the kernel still reads.
  bool must_stand_aside(const Given& output) const {
    const pto_tensor_ref& out = output.tensor;
    const AddressRange range = address_range(out);
    for (const auto& [in, dense, is_output] : std::span(given_).first(given_.size() - 1)) {
      if (in.sizes == nullptr || !overlap(range, address_range(in))) continue;
      const int64_t* const strides = out.strides != nullptr ? out.strides : output.dense.data();
      const bool is_same = in.data == out.data && in.rank == out.rank && in.dtype == out.dtype &&
                           std::equal(in.sizes, in.sizes + in.rank, out.sizes) &&
                           std::equal(in.strides, in.strides + in.rank, strides);
      if (is_output || !is_same || !(kernel_.flags & PTO_GUID_IN_PLACE)) return true;
    }
    return false;
  }

  static void describe(const Given& one, pto_tensor* plain) {
    const pto_tensor_ref& tensor = one.tensor;
    const DLPackType type = dlpack_type(dtype_of(tensor));
    const bool is_dense = is_contiguous(tensor.rank, tensor.sizes, tensor.strides);
    const auto first = reinterpret_cast<uintptr_t>(tensor.data);
    const AddressRange range = address_range(tensor);
    uint32_t flags = 0;
    if (!one.is_output) flags |= PTO_TENSOR_READ_ONLY;
    if (is_dense) flags |= PTO_TENSOR_CONTIGUOUS;
    *plain = {tensor.data,
              tensor.sizes,
              tensor.strides,
              tensor.rank,
              type.code,
              type.bits,
              1,
              flags,
              range.first == range.end ? 0 : static_cast<int64_t>(range.end - first)};
  }

  int32_t blocks() const {
    if (!(kernel_.flags & PTO_GUID_SPLITS)) return 1;
    int64_t items = 0, all_bytes = 0;
    for (const Given& one : given_) {
      if (one.tensor.sizes == nullptr) continue;
      const int64_t size = element_bytes(one.tensor);
      if (one.is_output) items = std::max(items, size / bytes(dtype_of(one.tensor)));
      all_bytes += size;
    }
    return std::max(1, block_count(items, all_bytes, 1, num_threads(), machine().grain_bytes));
  }

  const pto_guid_call& call_;
  const NamedKernel kernel_;
  Staging staging_;
  std::vector<Given> given_;
  std::vector<pto_tensor> tensors_;
};

}  // namespace
}  // namespace pto

int32_t pto_guid_register(const char* name, pto_kernel kernel, uint32_t flags) {
  return pto::reported([&] { pto::add(name, kernel, flags); });
}

int32_t pto_guid_check(const pto_guid_call* call) {
  return pto::reported([&] { pto::find(*call); });
}

int32_t pto_guid_run(const pto_guid_call* call) {
  return pto::reported([&] { pto::GuidRun(*call).run(); });
}
