// SPDX-License-Identifier: Apache-2.0
#include "pto/abi/guid.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pto/base/machine.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/number.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/program.hpp"
#include "pto/launch/strided_copy.hpp"
#include "pto/operators/last_error.hpp"
#include "pto/operators/memory.hpp"

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

// One call: tensors as the kernel takes them, and the outputs to copy back.
class GuidRun {
 public:
  explicit GuidRun(const pto_guid_call& call) : call_(call), kernel_(find(call)) {
    for (int32_t i = 0; i < call.n_tensors; ++i) take(i);
  }

  void run() {
    std::vector<pto_tensor> tensors;
    for (size_t i = 0; i < tensors_.size(); ++i) tensors.push_back(plain(i));
    pto_args args{};
    args.abi_version = PTO_ABI_VERSION;
    args.tensors = tensors.data();
    args.n_tensors = call_.n_tensors;
    const std::vector<uint64_t> slots = scalars();
    args.scalars = slots.data();
    args.n_scalars = call_.n_scalars;
    args.params = call_.params;
    args.params_bytes = call_.params_bytes;
    if (pto_launch(kernel_.function, &args, blocks()) != 0) {
      // The kernel's own text says what, why and fix.
      throw std::runtime_error(std::string(call_.caller) + ": " + call_.guid + ": " +
                               pto_last_error());
    }
    for (const Aside& aside : asides_) {
      const pto_tensor_ref& to = call_.tensors[aside.output];
      copy(to.data, strides_of(aside.output), aside.memory.data(), dense_[aside.output].data(), to);
    }
  }

 private:
  struct Aside {
    size_t output;
    Memory memory;
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

  bool is_absent(size_t i) const { return call_.tensors[i].sizes == nullptr; }
  bool is_output(size_t i) const { return static_cast<int32_t>(i) >= call_.n_inputs; }
  const int64_t* strides_of(size_t i) const {
    return call_.tensors[i].strides ? call_.tensors[i].strides : dense_[i].data();
  }

  void take(int32_t index) {
    const auto i = static_cast<size_t>(index);
    dense_.emplace_back();
    elements_.push_back(0);
    tensors_.push_back(is_absent(i) ? pto_tensor_ref{} : call_.tensors[i]);
    if (is_absent(i)) return;
    pto_tensor_ref& one = tensors_.back();
    dense_[i].resize(static_cast<size_t>(one.rank));
    elements_[i] = dense_strides(one.rank, one.sizes, dense_[i].data());
    one.strides = strides_of(i);
    if (elements_[i] > 0 && one.data == nullptr) {
      fail_in(call_, "tensor " + std::to_string(index) + " has no memory",
              "a kernel reads and writes elements", "pass a tensor with data");
    }
    const bool must_be_dense = !(kernel_.flags & PTO_GUID_TAKES_STRIDES) &&
                               !is_contiguous(one.rank, one.sizes, one.strides);
    if (is_output(i) && (must_be_dense || must_stand_aside(i))) {
      asides_.push_back({i, Memory(call_.caller, elements_[i] * bytes(dtype_of(one)))});
      use(i, asides_.back().memory.data());
    } else if (must_be_dense) {
      copies_.emplace_back(call_.caller, elements_[i] * bytes(dtype_of(one)));
      copy(copies_.back().data(), dense_[i].data(), one.data, one.strides, one);
      use(i, copies_.back().data());
    }
  }

  void use(size_t i, void* memory) {
    tensors_[i].data = memory;
    tensors_[i].strides = dense_[i].data();
  }

  static void copy(void* to, const int64_t* to_strides, const void* from,
                   const int64_t* from_strides, const pto_tensor_ref& like) {
    copy_strided(to, to_strides, from, from_strides, like.sizes, like.rank, bytes(dtype_of(like)));
  }

  // Says whether an output's memory holds something that the kernel still reads.
  bool must_stand_aside(size_t output) const {
    const pto_tensor_ref& out = tensors_[output];
    const AddressRange range = address_range(out);
    for (size_t i = 0; i < output; ++i) {
      const pto_tensor_ref& in = tensors_[i];
      if (is_absent(i) || !overlap(range, address_range(in))) continue;
      const bool is_same = in.data == out.data && in.rank == out.rank && in.dtype == out.dtype &&
                           std::equal(in.sizes, in.sizes + in.rank, out.sizes) &&
                           std::equal(in.strides, in.strides + in.rank, out.strides);
      if (is_output(i) || !is_same || !(kernel_.flags & PTO_GUID_IN_PLACE)) return true;
    }
    return false;
  }

  pto_tensor plain(size_t i) const {
    const pto_tensor_ref& one = tensors_[i];
    pto_tensor made{};
    if (is_absent(i)) {
      made.flags = PTO_TENSOR_ABSENT;
      return made;
    }
    const DLPackType type = dlpack_type(dtype_of(one));
    made.data = one.data;
    made.sizes = one.sizes;
    made.strides = one.strides;
    made.rank = one.rank;
    made.type_code = type.code;
    made.type_bits = type.bits;
    made.type_lanes = 1;
    made.flags = (is_output(i) ? 0 : PTO_TENSOR_READ_ONLY) |
                 (is_contiguous(one.rank, one.sizes, one.strides) ? PTO_TENSOR_CONTIGUOUS : 0);
    const auto first = reinterpret_cast<uintptr_t>(one.data);
    made.extent_bytes = elements_[i] ? static_cast<int64_t>(address_range(one).end - first) : 0;
    return made;
  }

  int32_t blocks() const {
    if (!(kernel_.flags & PTO_GUID_SPLITS)) return 1;
    int64_t items = 0, all_bytes = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (is_output(i)) items = std::max(items, elements_[i]);
      all_bytes += elements_[i] * bytes(dtype_of(tensors_[i]));
    }
    return std::max(1, block_count(items, all_bytes, 1, num_threads(), machine().grain_bytes));
  }

  const pto_guid_call& call_;
  const NamedKernel kernel_;
  std::vector<pto_tensor_ref> tensors_;
  std::vector<std::vector<int64_t>> dense_;  // row-major strides of each
  std::vector<int64_t> elements_;
  std::vector<Memory> copies_;
  std::vector<Aside> asides_;
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
