// SPDX-License-Identifier: Apache-2.0
// Invocation: one call of an operator, read from the boxed stack of PyTorch's stable C interface.
//
//     Invocation(op, stack).run();   // takes arguments off the stack, puts results there
//
// An operator's `out` overload takes a tensor for each result after its arguments; it writes and
// returns them. invocation.cpp takes and describes arguments, results.cpp makes results.
// Invariant: it owns what the stack held from construction on, so that an error leaks nothing; but
// not the tensors of a direct call.
// Thread safety: belongs to one thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pto/adapters/operator.hpp"
#include "pto/adapters/torch/shim.hpp"
#include "pto/base/strided.hpp"
#include "pto/launch/staging.hpp"
#include "pto/operators/packed_constants.hpp"

namespace pto::torch_adapter {

inline const int32_t kCpu = aoti_torch_device_type_cpu();

// A call on tensors of another device than the CPU, whose memory the processor can reach. Plain C,
// since the device lives in another library.
struct DeviceCall {
  const pto_operator_call* call;
  int32_t device_index;
  void* invocation;  // for the functions below
  // Visits all tensors; after pto_operator_bind() also those that it made.
  void (*for_tensors)(void* invocation, void (*take)(void* context, TensorObject*), void* context);
  // Asked after pto_operator_bind(): whether the run and finish() must end before the call does.
  bool (*must_finish)(void* invocation);
  void (*finish)(void* invocation);
  // Run under PyTorch's thread setting; if not 0, pto_operator_error() says why.
  int32_t (*run)(const pto_operator_call* call);
  int32_t (*run_bound)(pto_operator_launch* launch);
};
using DeviceRunner = int32_t (*)(const DeviceCall& call);

class Invocation {
 public:
  enum class Results { New, IntoOut };
  // A call past the dispatcher, of an operator that replaces no argument: its tensors stay the
  // caller's. The site (may be null) is for calls whose attributes are all the same.
  struct Direct {
    pto_operator_site* site;
  };
  Invocation(const pto_operator& op, Boxed* stack, Results results = Results::New);
  Invocation(const pto_operator& op, Boxed* stack, Direct direct);
  ~Invocation();
  Invocation(const Invocation&) = delete;
  Invocation& operator=(const Invocation&) = delete;

  // Throws std::runtime_error with our text.
  void run();

 private:
  struct Device {
    int32_t type = 0, index = 0;
    friend bool operator==(const Device&, const Device&) = default;
  };

  void take();
  // In the overload `out` the first Tensor is a Tensor? of PyTorch's: see record.py.
  bool travels_as_optional(const pto_operator_argument& argument) const;
  void take_tensors(const pto_operator_argument& argument, Boxed value);
  void take_attribute(const pto_operator_argument& argument, Boxed value);
  void take_string(StringObject* string, pto_operator_value& value);
  void take_integers(ListObject* list, pto_operator_value& value);
  void describe_all();
  void take_packed_weight();
  void describe(const char* name, TensorObject* object, pto_tensor_ref& tensor);
  Device device_of(const char* name, TensorObject* object);
  using Written = std::pair<const char*, const pto_tensor_ref*>;  // a mutable argument
  void check_writable(const char* name, const pto_tensor_ref& tensor) const;
  void check_apart(std::span<const Written> others, const char* name,
                   const pto_tensor_ref& tensor) const;
  int32_t run_on_cpu(const pto_operator_call& call) const;
  int32_t run_on_device(const pto_operator_call& call, DeviceRunner runner);
  void for_tensors(void (*take)(void* context, TensorObject*), void* context) const;
  bool must_finish() const;
  void finish();
  void give_results();
  void narrow_results();
  TensorObject* narrowed(TensorObject* tensor, int64_t rows) const;
  Boxed give_list(std::vector<TensorObject*>& members);

  static void* allocate(void* user, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype);
  static void narrow(void* user, int32_t output, int64_t rows);
  static void* in_place(void* user, int32_t output);
  void* replace(int32_t argument, const int64_t* sizes, int32_t rank, int32_t dtype);
  void* write_out(int32_t output, const int64_t* sizes, int32_t rank, int32_t dtype);
  void resize(TensorObject* tensor, const int64_t* sizes, int32_t rank) const;
  void* memory_of(const pto_tensor_ref& tensor);
  void* make_tensor(TensorObject** tensor, const int64_t* sizes, int32_t rank, int32_t dtype);
  int first_tensor(int32_t argument) const;
  std::span<TensorObject* const> single_outputs() const {
    return std::span(single_outputs_).first(static_cast<size_t>(op_.n_outputs));
  }

  const pto_operator& op_;
  Boxed* stack_;
  std::optional<Direct> direct_;
  int n_tensors_ = 0, n_counts_ = 0, n_attributes_ = 0, n_strings_ = 0;
  bool has_device_ = false;
  Device device_;
  const char* device_of_ = "";  // the argument that says so
  TensorObject* objects_[PTO_MAX_TENSORS];
  StringObject* strings_[PTO_MAX_ARGUMENTS];
  int32_t counts_[PTO_MAX_TENSORS];
  pto_tensor_ref tensors_[PTO_MAX_TENSORS];
  std::vector<AddressRange> written_;  // mutable arguments
  pto_operator_value attributes_[PTO_MAX_ARGUMENTS];
  int n_outs_ = 0;
  TensorObject* outs_[PTO_MAX_OUTPUTS];
  pto_tensor_ref out_tensors_[PTO_MAX_OUTPUTS];
  std::array<TensorObject*, PTO_MAX_OUTPUTS> single_outputs_{};  // by output
  std::array<int64_t, PTO_MAX_OUTPUTS> rows_;                    // of outputs that are bounded
  std::vector<std::vector<TensorObject*>> list_outputs_;         // by output, where there are lists
  std::vector<std::vector<int64_t>> integers_;
  std::shared_ptr<const PackedWeight> packed_;
  Staging staging_{op_.name};  // of results for tensors with gaps
};

// Says whether an operator replaces only its first argument and returns it, as PyTorch's tag
// `inplace` demands. PyTorch's schema does not return other mutable arguments.
bool returns_self(const pto_operator& op);

// Sets the runner for PyTorch's PrivateUse1 device; without one, or with null, its tensors are
// refused.
void set_device_runner(DeviceRunner runner);

// Sets the function that tells the owner of a tensor's memory, or 0 where nothing is known; without
// one no weight is packed.
using WeightOwner = int32_t (*)(TensorObject* tensor, pto_weight_owner* owner);
void set_weight_owner(WeightOwner function);

// Sets the function that lets PyTorch resize a tensor over our memory; without one it refuses.
using Resizer = void (*)(TensorObject* tensor);
void set_resizer(Resizer function);

// Throws the text of PyTorch's last error if the code is not 0.
void check(int32_t code);

}  // namespace pto::torch_adapter
