// SPDX-License-Identifier: Apache-2.0
// Task arguments of the public spelling (orchestration_api.h): those of the run, and those of a
// task.
//
//     CoreTaskArgs task;
//     task.add_input(x, y);
//     task.add_output(info);                       // the runtime makes it; get_ref(0) is it
//     task.set_dependencies(ids, 2);               // the array is read at the submission
//
// Invariant: arguments keep tensors by value, so those may end before the submission. The array of
// set_dependencies and the tensor of a predicate are kept by address and must live until it.
// Thread safety: none; values of one thread.
#pragma once

#include <cmath>
#include <cstdio>
#include <set>

#include "orchestration_tensor.h"

#define LOG_ERROR(format, ...) std::fprintf(stderr, format "\n", ##__VA_ARGS__)
#define LOG_WARN(format, ...) std::fprintf(stderr, format "\n", ##__VA_ARGS__)
#define LOG_TIMING(format, ...) ((void)0)
#define LOG_INFO(format, ...) ((void)0)
#define LOG_DEBUG(format, ...) ((void)0)

namespace pto {
namespace compat {

// A scalar as the caller gave it: its value's slot, the kind of that, and its own bits.
struct GivenScalar {
  uint64_t bits;   // int64, or a double's
  int32_t number;  // PTO_NUMBER_...
  uint64_t raw;    // a float's 32, a double's 64, an integer's
};

// Returns a floating-point scalar of run() as the public runtime has it: 32 bits, unless run()
// asked for a float64 by name.
inline GivenScalar given_by_run(uint64_t bits, int32_t number) {
  GivenScalar scalar{bits, number, bits};
  if (number != PTO_NUMBER_REAL) return scalar;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  scalar.raw = to_u64(float(value));
  return scalar;
}

// Tensors as tensor(i).ref(), scalars as scalar<T>(i): a floating-point T gets the value, an
// integral T an integer, or the bits of a floating-point scalar.
class GivenArguments {
 public:
  template <class T = uint64_t>
  T scalar(int32_t index) const {
    check("scalar", index, scalars_.size());
    const GivenScalar& given = scalars_[size_t(index)];
    if constexpr (std::is_floating_point<T>::value) {
      return T(real_of(given));
    } else {
      check_bits(given, index, sizeof(T), uint64_t(T(given.raw)));
      return T(given.raw);
    }
  }
  int32_t scalar_count() const { return int32_t(scalars_.size()); }
  const std::vector<GivenScalar>& scalars() const { return scalars_; }
  void add_scalar_as_given(const GivenScalar& scalar) { scalars_.push_back(scalar); }

 protected:
  static void check(const char* kind, int32_t index, size_t count) {
    if (index >= 0 && size_t(index) < count) return;
    refuse(std::string(kind) + "(" + std::to_string(index) + "), but there are " +
               std::to_string(count),
           "tensors and scalars are counted from 0, each on their own",
           "pass a smaller index, or pass more arguments");
  }
  // Checks an integral read that gave `value`.
  static void check_bits(const GivenScalar& given, int32_t index, size_t bytes, uint64_t value) {
    const std::string what = "scalar<T>(" + std::to_string(index) + ") of ";
    const double real = real_of(given);
    if (given.number == PTO_NUMBER_REAL && std::isfinite(real) && !std::isfinite(float(real)))
      refuse(what + shown(real), "an integral T gets the bits of a float32, and none is that large",
             "ask for a floating-point T, or pass it to run() with dtype=\"float64\"");
    const bool has_sign = given.number == PTO_NUMBER_SIGNED;
    const bool is_wide = bytes >= (given.raw >> 32 != 0 ? 8 : 4);  // as bits
    if (bytes == 8 || value == given.raw || (!has_sign && is_wide)) return;
    refuse(what + (has_sign ? std::to_string(int64_t(given.raw)) : shown(real)),
           "T has " + std::to_string(bytes * 8) + " bits, which do not hold it",
           "ask for int64_t, or for double where run() was given a float");
  }
  static std::string shown(double real) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.9g", real);
    return digits;
  }
  static double real_of(const GivenScalar& given) {
    double value;
    std::memcpy(&value, &given.bits, sizeof value);
    if (given.number == PTO_NUMBER_SIGNED) return double(int64_t(given.bits));
    if (given.number == PTO_NUMBER_UNSIGNED) return double(given.bits);
    if (given.number != PTO_NUMBER_BITS || given.bits >> 32 != 0) return value;
    return double(from_u64<float>(given.bits));
  }

 private:
  std::vector<GivenScalar> scalars_;
};

// A public runtime has one of two names for the number of blocks; without a chip (PTO_CHIP of
// isa/kernel/chip.hpp) both exist. PTO_HOST_BUILD_GRAPH: the program names that runtime.
#if defined(PTO_CHIP) && PTO_CHIP == 2 && !defined(PTO_HOST_BUILD_GRAPH)
#define PTO_COUNTS_CORES
// The guard of that runtime's own header, by which sources ask for the name.
#define SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_
#endif
class LaunchSpec {
 public:
#if !defined(PTO_COUNTS_CORES)
  int16_t block_num() const { return blocks_; }
  void set_block_num(int16_t count) { blocks_ = count; }
#endif
#if !defined(PTO_CHIP) || defined(PTO_COUNTS_CORES)
  int16_t core_num() const { return blocks_; }
  void set_core_num(int16_t count) { blocks_ = count; }
#endif
  int32_t blocks() const { return blocks_; }
  bool require_sync_start() const { return is_together_; }
  void set_require_sync_start(bool together) { is_together_ = together; }

 private:
  int16_t blocks_ = 1;
  bool is_together_ = false;
};
#undef PTO_COUNTS_CORES

}  // namespace compat
}  // namespace pto

// The arguments of the run.
class ChipTaskArgs : public pto::compat::GivenArguments {
 public:
  const ChipTensor& tensor(int32_t index) const {
    check("tensor", index, tensors_.size());
    return tensors_[size_t(index)];
  }
  int32_t tensor_count() const { return int32_t(tensors_.size()); }
  void add(const ChipTensor& tensor) { tensors_.push_back(tensor); }

 private:
  std::vector<ChipTensor> tensors_;
};

using ChipStorageTaskArgs = ChipTaskArgs;

enum class PredicateOp : uint8_t { NONE, EQ, NE, GT, LT, GE, LE };

// Skips the task unless element `op` target holds when it could begin.
struct CoreTaskPredicate {
  struct {
    const ChipTensor* tensor = nullptr;
    uint32_t ndims = 0;
    uint32_t indices[MAX_TENSOR_DIMS] = {};
  } operand;
  PredicateOp op = PredicateOp::NONE;
  int64_t target = 0;
};
using L0TaskPredicate = CoreTaskPredicate;

// The purpose of a dependency: order, and the life of the memory that the earlier task made.
enum DepFlags : uint8_t { DEP_NONE, DEP_WAIT, DEP_RETAIN };
constexpr DepFlags operator|(DepFlags a, DepFlags b) { return DepFlags(uint8_t(a) | uint8_t(b)); }
constexpr DepFlags operator&(DepFlags a, DepFlags b) { return DepFlags(uint8_t(a) & uint8_t(b)); }

class CoreTaskArgs : public pto::compat::GivenArguments {
 public:
  static constexpr int32_t kCreated = -1;
  struct TensorSlot {
    int32_t kind;  // PTO_ARG_..., or kCreated: of `info`
    ChipTensor tensor;
    TensorCreateInfo info;
  };

  template <class... T>
  void add_input(const T&... tensors) {
    (add(PTO_ARG_INPUT, tensors), ...);
  }
  template <class... T>
  void add_output(const T&... tensors) {
    (add(PTO_ARG_OUTPUT, tensors), ...);
  }
  template <class... T>
  void add_inout(const T&... tensors) {
    (add(PTO_ARG_INOUT, tensors), ...);
  }
  template <class... T>
  void add_no_dep(const T&... tensors) {
    (add(PTO_ARG_NO_DEP, tensors), ...);
  }
  template <class... T>
  void add_scalar(T... values) {
    (add_scalar_as_given(given_of(values)), ...);
  }
  void add_scalars(const uint64_t* values, int count) {
    for (int k = 0; k < count; ++k) add_scalar(values[k]);
  }
  void add_scalars_i32(const int32_t* values, int count) {  // as unsigned, as the public one does
    for (int k = 0; k < count; ++k) add_scalar(uint32_t(values[k]));
  }
  void copy_scalars_from(const CoreTaskArgs& other, int from, int count) {
    if (from < 0 || count < 0 || count > other.scalar_count() - from)
      return set_error("copy_scalars_from(): from + count is beyond the other's scalars");
    for (size_t k = size_t(from); k < size_t(from + count); ++k)
      add_scalar_as_given(other.scalars()[k]);
  }

  const ChipTensor& tensor(int32_t index) const {
    check("tensor", index, slots_.size());
    return slots_[size_t(index)].tensor;
  }
  int32_t tensor_count() const { return int32_t(slots_.size()); }
  const std::vector<TensorSlot>& slots() const { return slots_; }

  // The array must live until the submission; null and 0 take it back.
  void set_dependencies(const TaskId* ids, uint32_t count) {
    if (ids == nullptr && count > 0)
      return set_error("set_dependencies(): the list is null, but its count is " +
                       std::to_string(count));
    if (dependencies_ != nullptr && count > 0)
      return set_error("set_dependencies() a second time, which would drop the first");
    dependencies_ = count > 0 ? ids : nullptr;
    n_dependencies_ = count;
  }
  // Every dependency orders here, and the runtime keeps the memory that a task uses anyhow.
  void set_dependencies_with_kinds(const TaskId* ids, const DepFlags* kinds, uint32_t count) {
    if (kinds == nullptr && count > 0)
      return set_error("set_dependencies_with_kinds(): kinds is null, but count is " +
                       std::to_string(count));
    set_dependencies(ids, count);
  }
  uint32_t explicit_dep_count() const { return n_dependencies_; }
  TaskId explicit_dep(uint32_t index) const {
    check("explicit_dep", int32_t(index), n_dependencies_);
    return dependencies_[index];
  }

  void set_predicate(const CoreTaskPredicate& condition) {
    if (condition.op == PredicateOp::NONE || condition.operand.tensor == nullptr)
      set_error("set_predicate() without a tensor or a comparison");
    predicate = condition;
  }
  void set_allow_early_resolve(bool allow = true) { is_early_ = allow; }
  bool allow_early_resolve() const { return is_early_; }
  void set_task_timing_slot(int32_t slot) {
    if (slot < 0 || slot > 15)
      return set_error("set_task_timing_slot(" + std::to_string(slot) + "): slots are 0 to 15");
    timing_slot_ = slot;
  }
  int32_t task_timing_slot() const { return timing_slot_; }
  template <class... T>
  void dump(const T&...) {}

  bool has_error = false;
  const char* error_msg = nullptr;  // a text of the thread's, which stays
  void set_error(const std::string& text) {
    static thread_local std::set<std::string> texts;
    if (has_error) return;
    has_error = true;
    error_msg = texts.insert(text).first->c_str();
  }
  void throw_if_wrong() const {
    if (has_error)
      pto::compat::refuse(
          std::string("a task's arguments: ") + error_msg,
          "the runtime reports an error of the arguments when the task is submitted",
          "correct the call that added them");
  }
  // Removes everything that was added; keeps the launch options and an error.
  void clear() {
    CoreTaskArgs empty;
    empty.launch_spec = launch_spec;
    empty.has_error = has_error;
    empty.error_msg = error_msg;
    *this = std::move(empty);
  }
  void reset() {
    clear();
    has_error = false;
    error_msg = nullptr;
  }

  pto::compat::LaunchSpec launch_spec;
  CoreTaskPredicate predicate;

 private:
  void add(int32_t kind, const ChipTensor& tensor) { slots_.push_back({kind, tensor, {}}); }
  void add(int32_t kind, const TensorCreateInfo& info) {
    if (kind != PTO_ARG_OUTPUT) set_error("a TensorCreateInfo was added, but not as an output");
    slots_.push_back({kCreated, {}, info});
  }
  // scalar() and to_u64() return bits as a uint64_t, for a kernel that takes a float there.
  template <class T>
  static pto::compat::GivenScalar given_of(T value) {
    static_assert(std::is_arithmetic<T>::value || std::is_enum<T>::value,
                  "add_scalar(): a scalar must be a number or an enum; convert it");
    if constexpr (std::is_enum<T>::value) {
      return {uint64_t(int64_t(value)), PTO_NUMBER_SIGNED, to_u64(value)};
    } else {
      const pto::TaskArgument made = pto::Orchestration::scalar(value);
      int32_t number = made.number;
      if (std::is_same<T, double>::value) number = PTO_NUMBER_FLOAT64;
      if (number == PTO_NUMBER_UNSIGNED && sizeof value == 8) number = PTO_NUMBER_BITS;
      return {made.scalar, number, to_u64(value)};
    }
  }

  std::vector<TensorSlot> slots_;
  const TaskId* dependencies_ = nullptr;
  uint32_t n_dependencies_ = 0;
  int32_t timing_slot_ = -1;
  bool is_early_ = false;
};
using Arg = CoreTaskArgs;
using L0TaskArgs = CoreTaskArgs;
using GraphTaskArgs = CoreTaskArgs;

// Has room of its own for the tasks that it follows.
template <size_t N = 16>
class CoreTaskArgsWithDeps : public CoreTaskArgs {
 public:
  template <class... Ids>
  void add_dep(Ids... ids) {
    static_assert((std::is_same<Ids, TaskId>::value && ...),
                  "add_dep(): each argument must be a TaskId; pass what a submission returned");
    if (ids_.size() + sizeof...(ids) > N)
      set_error("add_dep(): more tasks than the N of CoreTaskArgsWithDeps<N>");
    (ids_.push_back(ids), ...);
  }
  template <class... Ids>
  void add_dep_wait(Ids... ids) {
    add_dep(ids...);
  }
  void reset() {
    CoreTaskArgs::reset();
    ids_.clear();
  }
  const CoreTaskArgs& finalize_for_submit() {
    set_dependencies(nullptr, 0);
    set_dependencies(ids_.data(), uint32_t(ids_.size()));
    return *this;
  }

 private:
  using CoreTaskArgs::set_dependencies;
  std::vector<TaskId> ids_;
};
template <size_t N = 16>
using L0TaskArgsWithDeps = CoreTaskArgsWithDeps<N>;

namespace pto {
namespace compat {
inline int32_t compare_of(PredicateOp op) {
  constexpr int32_t compares[] = {PTO_IF_NE, PTO_IF_EQ, PTO_IF_NE, PTO_IF_GT,
                                  PTO_IF_LT, PTO_IF_GE, PTO_IF_LE};
  return compares[int(op)];
}
}  // namespace compat
}  // namespace pto
