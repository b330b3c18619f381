// SPDX-License-Identifier: Apache-2.0
// pto_operator_site: remembers the calls of one place, so that sizes are checked and bound once.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "pto/abi/limits.h"
#include "pto/base/strided.hpp"
#include "pto/launch/repeated_call.hpp"
#include "pto/operators/last_error.hpp"
#include "pto/operators/memory.hpp"
#include "pto/operators/operator.hpp"
#include "pto/operators/run.hpp"

namespace pto {
namespace {

// Compares in line: a call costs more than a few comparisons.
bool same(const int64_t* a, const int64_t* b, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// The site's calls with tensors of the same types, sizes and strides.
class KnownCall {
 public:
  KnownCall(const pto_operator_call& call, const CallArguments& arguments)
      : given_(arguments.given()),
        counts_(arguments.counts().begin(), arguments.counts().end()),
        call_(program_of(*call.op, arguments), arguments.tensors(), arguments.scalars(),
              arguments.params()) {
    for (size_t i = 0; i < given_; ++i) keep_input(arguments.tensors()[i]);
    for_each_output(call, static_cast<int>(call_.outputs().size()), [this](int output, int member) {
      places_.push_back({output, member});
    });
    for (size_t output = 0; output < places_.size(); ++output) keep_replacements(output, arguments);
  }

  bool fits(const pto_operator_call& call) const {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if ((call.counts ? call.counts[i] : 1) != counts_[i]) return false;
    }
    const pto_tensor_ref* given = call.tensors;
    for (const Input& input : inputs_) {
      const pto_tensor_ref& tensor = *given++;
      if (tensor.rank != input.rank || tensor.dtype != input.dtype) return false;
      if (!same(input.sizes, tensor.sizes, input.rank)) return false;
      if (tensor.strides ? !same(input.strides, tensor.strides, input.rank) : !input.is_dense) {
        return false;
      }
    }
    return true;
  }

  void run(const pto_operator_call& call) const {
    std::array<void*, PTO_MAX_BUFFERS> inputs{}, outputs;
    for (size_t i = 0; i < given_; ++i) inputs[i] = call.tensors[i].data;
    const ProgramSpec& spec = call_.program().spec();
    for (size_t i = 0; i < places_.size(); ++i) {
      const pto_tensor& output = call_.outputs()[i];
      const std::span sizes(output.sizes, static_cast<size_t>(output.rank));
      outputs[i] = allocate_output(call, places_[i].output, places_[i].member, sizes,
                                   spec.outputs[i].dtype, output.extent_bytes);
    }
    if (overlaps(inputs.data(), outputs.data())) [[unlikely]]
      return run_again(call, outputs.data());
    call_.run({inputs.data(), call_.inputs().size()}, {outputs.data(), places_.size()});
  }

 private:
  struct Input {
    int32_t rank, dtype;
    const int64_t *sizes, *strides;
    bool is_dense;
    AddressRange range;  // of an input at address 0
  };
  struct OutputPlace {
    int output, member;
  };

  void keep_input(const pto_tensor_ref& input) {
    const pto_tensor& kept = call_.inputs()[inputs_.size()];
    std::array<int64_t, PTO_MAX_RANK> dense;
    dense_strides(input.rank, input.sizes, dense.data());
    const bool is_dense = std::equal(input.strides, input.strides + input.rank, dense.data());
    pto_tensor_ref at_zero = input;
    at_zero.data = nullptr;
    inputs_.push_back(
        {input.rank, input.dtype, kept.sizes, kept.strides, is_dense, address_range(at_zero)});
  }

  void keep_replacements(size_t output, const CallArguments& arguments) {
    const pto_tensor& own = call_.outputs()[output];
    const std::span sizes(own.sizes, static_cast<size_t>(own.rank));
    for (size_t i = 0; i < given_; ++i) {
      may_replace_.push_back(
          may_replace(call_.program().spec(), output, sizes, arguments.tensors()[i]));
    }
  }

  // Says whether an output's memory holds something that is still to be read.
  bool overlaps(void* const* inputs, void* const* outputs) const {
    auto may_replace = may_replace_.begin();
    for (size_t o = 0; o < places_.size(); ++o) {
      const auto first = reinterpret_cast<uintptr_t>(outputs[o]);
      const AddressRange output{first,
                                first + static_cast<uintptr_t>(call_.outputs()[o].extent_bytes)};
      for (size_t i = 0; i < given_; ++i, ++may_replace) {
        const auto data = reinterpret_cast<uintptr_t>(inputs[i]);
        const AddressRange& range = inputs_[i].range;
        if (output.first == output.end || !overlap(output, {data + range.first, data + range.end}))
          continue;
        if (!*may_replace || inputs[i] != outputs[o]) return true;
      }
    }
    return false;
  }

  // Runs all steps, into outputs that the caller has already given.
  static void run_again(const pto_operator_call& call, void* const* outputs) {
    pto_operator_call again = call;
    again.user = &outputs;
    again.allocate = [](void* user, int32_t, int32_t, const int64_t*, int32_t, int32_t) {
      return *(*static_cast<void* const**>(user))++;
    };
    CallArguments arguments(again, CallArguments::Reads::Values);
    run_call(again, arguments);
  }

  size_t given_;
  std::vector<int32_t> counts_;
  RepeatedCall call_;
  std::vector<Input> inputs_;
  std::vector<OutputPlace> places_;
  std::vector<char> may_replace_;  // of each output and input
};

// Says whether a native kernel that takes no strides would get copies of its inputs.
bool makes_copies(const pto_operator_call& call, const CallArguments& arguments) {
  const Operator& self = operator_at(call.op->index);
  if (!self.is_native || self.takes_strides) return false;
  const auto has_gaps = [](const pto_tensor_ref& one) {
    return stride_class(one.sizes, one.strides, one.rank) != StrideClass::Contiguous;
  };
  const auto given = arguments.tensors().first(arguments.given());
  return std::any_of(given.begin(), given.end(), has_gaps);
}

}  // namespace
}  // namespace pto

struct pto_operator_site {
  void run(const pto_operator_call& call) {
    if (const pto::KnownCall* known = find(call)) return known->run(call);
    pto::CallArguments arguments(call, pto::CallArguments::Reads::Values);
    const bool has_bounded = pto::operator_at(call.op->index).has_bounded;
    if (!is_full() && !has_bounded && !pto::makes_copies(call, arguments))
      remember(call, arguments);
    pto::run_call(call, arguments);
  }

  ~pto_operator_site() {
    for (const auto& one : known_) delete one.load();
  }

 private:
  const pto::KnownCall* find(const pto_operator_call& call) const {
    for (const auto& one : known_) {
      const pto::KnownCall* known = one.load(std::memory_order_acquire);
      if (!known || known->fits(call)) return known;
    }
    return nullptr;
  }

  bool is_full() const { return known_.back().load(std::memory_order_relaxed) != nullptr; }

  void remember(const pto_operator_call& call, const pto::CallArguments& arguments) {
    auto made = std::make_unique<const pto::KnownCall>(call, arguments);
    const std::lock_guard lock(mutex_);
    if (find(call) || is_full()) return;  // another thread was faster
    const auto is_free = [](const auto& one) { return one.load() == nullptr; };
    std::find_if(known_.begin(), known_.end(), is_free)
        ->store(made.release(), std::memory_order_release);
  }

  // An entry never changes once it is set, so calls need no lock; entries after the last are null.
  std::array<std::atomic<const pto::KnownCall*>, 4> known_{};
  std::mutex mutex_;
};

pto_operator_site* pto_operator_site_new(void) { return new (std::nothrow) pto_operator_site; }

int32_t pto_operator_site_run(pto_operator_site* site, const pto_operator_call* call) {
  if (!site) return pto_operator_run(call);
  return pto::reported([&] { site->run(*call); });
}

void pto_operator_site_free(pto_operator_site* site) { delete site; }
