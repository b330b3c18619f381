// SPDX-License-Identifier: Apache-2.0
// Fronts: typed kernels that stand before PyTorch's own for the CPU, and call them unboxed.
//
//     Front<at::Tensor(const at::Tensor&)>::call     // the kernel; kFronts has one an overload
//
// A front that is on and takes the arguments hands them to the runner, which may refuse. Where the
// runner fails, the kernel runs too: its error is the call's, else that of the runner. All other
// calls go to the kernel that was there before. generate.py lists the overloads that have a row.
//
// Invariant: a call that the runner makes meets no front; kernels above the CPU key stay as they
// were.
// Thread safety: any thread may call; one thread at a time installs fronts.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <bit>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

namespace pto::torch_adapter {

struct FrontState {
  int32_t index;
  uint64_t others;   // a bit for each argument whose element type may be another than the rest's
  uint64_t written;  // a bit for each argument that the call writes
  std::atomic<uint64_t>* types_left;  // a bit for each element type whose calls go to the kernel
  c10::OperatorHandle op;
  c10::KernelFunction kept;  // the kernel that was there before
};

struct FrontRow {
  const char* name;
  const char* overload;
  uint64_t others, written;  // as in FrontState
  void* kernel;              // &Front<Schema>::call
  bool has_symbols;          // whether an argument is a c10::SymInt
};

extern const FrontRow kFronts[];
extern const size_t kFrontCount;

// Which implementations may run a call: none, those that take calls by themselves, or, as
// kFirstSlot + slot, those of a slot.
using Wish = uint8_t;
constexpr Wish kOff = 0, kAnySlot = 1, kFirstSlot = 2;

using Stack = torch::jit::Stack;
using FrontResults = c10::SmallVector<at::Tensor, 4>;

class FrontCall;

// How a call's arguments of one type are read, and boxed for Python.
struct FrontType {
  void (*read)(const void* value, FrontCall& call);
  c10::IValue (*box)(const void* value);
};

struct FrontArgument {
  const FrontType* type;
  const void* value;                   // it lies there while the call lasts
  const at::Tensor* tensor = nullptr;  // once it was read, if it is one
};

// Runs a call; false: it refuses. Calls that write arguments have no results.
using FrontRunner = bool (*)(FrontCall& call);

// The wish of the calling thread for a front; kOff while it runs one.
Wish front_wish(int32_t index);

// Whether a front leaves calls with tensors of a type to the kernel.
inline bool leaves(const FrontState& state, Wish wish, at::ScalarType type) {
  return wish == kAnySlot && (*state.types_left >> static_cast<int>(type) & 1) != 0;
}

// False for a call that no row takes, by what its tensors say before any argument is read: one does
// not lie row by row, or their type is not one, or one that the front leaves. `tensors` has a null
// for each other argument.
bool may_be_taken(const FrontState& state, Wish wish, std::span<const at::Tensor* const> tensors);

inline const at::Tensor* tensor_or_null(const at::Tensor& tensor) { return &tensor; }
template <class T>
const at::Tensor* tensor_or_null(const T&) {
  return nullptr;
}

// A call of a front on its way to the runner.
//
//     FrontArgument given[] = {front_argument(x), front_argument(2.0)};
//     FrontCall call(state, wish, given);
//     if (call.run()) return call.results[0];
//     if (call.error) ...             // what the runner threw
//
// Invariant: the runner sees only arguments that rows take: aligned, dense tensors, row by row, of
// one type but for the `others`; plain numbers. A type goes as its name, a memory format as none.
class FrontCall {
 public:
  FrontCall(const FrontState& state, Wish wish, std::span<FrontArgument> arguments)
      : state_(state), wish_(wish), arguments_(arguments) {}
  FrontCall(const FrontCall&) = delete;
  FrontCall& operator=(const FrontCall&) = delete;

  bool run();

  FrontResults results;
  std::exception_ptr error;

  // For the runner.
  int32_t index() const { return state_.index; }
  Wish wish() const { return wish_; }
  size_t size() const { return arguments_.size(); }
  const at::Tensor& tensor(size_t place) const { return *arguments_[place].tensor; }
  c10::IValue value(size_t place) const {
    return arguments_[place].type->box(arguments_[place].value);
  }
  // Calls with equal keys have the same front and wish, tensors of the same types, sizes and
  // strides, of which the same share memory that the call writes, and the same values elsewhere.
  // Empty: some tensor is not only memory, or the key would be too long.
  std::span<const int64_t> key() const {
    return {words_, has_key_ && count_ <= kMostWords ? count_ : 0};
  }

  // Leaves this front's calls with tensors of this type to the kernel, until
  // pto_aten_front_forget(); not those that ask for a slot.
  void leave_type() const {
    if (wish_ == kAnySlot) *state_.types_left |= uint64_t{1} << static_cast<int>(type_);
  }

  // For FrontType: adds what the argument is to the key.
  void read(const at::Tensor& tensor);
  void read(const at::ITensorListRef& tensors);
  void read(at::TensorList tensors) { read(at::ITensorListRef(tensors)); }
  void read(const at::Scalar& number);
  void read(bool yes) { push('b', yes); }
  void read(int64_t number) { push('i', number); }
  void read(double number) { push('d', std::bit_cast<int64_t>(number)); }
  void read(const c10::SymInt& number);
  void read(at::IntArrayRef numbers);
  void read(c10::SymIntArrayRef numbers);
  void read(at::OptionalIntArrayRef numbers);
  void read(std::string_view text);
  void read(at::ScalarType type);
  void read(at::MemoryFormat format);
  void read(const std::array<bool, 2>& each) { push('b', each[0], 'b', each[1]); }
  void read(const std::array<bool, 3>& each) { push('b', each[0], 'b', each[1], 'b', each[2]); }
  void read(const std::optional<at::ScalarType>& type);
  void read(const struct FrontBoxed& boxed);
  template <class T>
  void read(const std::optional<T>& value) {
    if (value)
      read(*value);
    else
      push('n');
  }

 private:
  static constexpr size_t kMostWords = 96, kMostRanges = 40;
  template <class... Word>
  void push(Word... words) {
    ((count_ < kMostWords ? void(words_[count_] = static_cast<int64_t>(words)) : void(), ++count_),
     ...);
  }
  void read_list(const c10::IValue& list);
  void read_value(const c10::IValue& value);
  void check(const at::Tensor& tensor);
  void push_shared_memory();

  struct Memory {
    uintptr_t first, end;
    bool is_written;
  };

  const FrontState& state_;
  const Wish wish_;
  const std::span<FrontArgument> arguments_;
  size_t place_ = 0;  // of the argument that is read
  bool takes_ = true, has_key_ = true;
  int tensors_ = 0;  // that have to have one type
  at::ScalarType type_ = at::kFloat;
  size_t count_ = 0, ranges_ = 0;
  Memory memory_[kMostRanges];  // of the tensors of a call that writes some
  int64_t words_[kMostWords];
};

// An argument of a boxed call, and its description in the schema.
struct FrontBoxed {
  const c10::IValue* value;
  const c10::Argument* argument;
};

c10::IValue front_box(const at::Tensor& tensor);
c10::IValue front_box(const at::ITensorListRef& tensors);
c10::IValue front_box(at::TensorList tensors);
c10::IValue front_box(const at::Scalar& number);
c10::IValue front_box(bool yes);
c10::IValue front_box(int64_t number);
c10::IValue front_box(double number);
c10::IValue front_box(const c10::SymInt& number);
c10::IValue front_box(at::IntArrayRef numbers);
c10::IValue front_box(c10::SymIntArrayRef numbers);
c10::IValue front_box(at::OptionalIntArrayRef numbers);
c10::IValue front_box(std::string_view text);
c10::IValue front_box(at::ScalarType type);
c10::IValue front_box(at::MemoryFormat format);
c10::IValue front_box(const std::array<bool, 2>& each);
c10::IValue front_box(const std::array<bool, 3>& each);
c10::IValue front_box(const FrontBoxed& boxed);
template <class T>
c10::IValue front_box(const std::optional<T>& value) {
  return value ? front_box(*value) : c10::IValue();
}

template <class T>
inline constexpr FrontType kFrontType = {
    [](const void* value, FrontCall& call) { call.read(*static_cast<const T*>(value)); },
    [](const void* value) { return front_box(*static_cast<const T*>(value)); }};

template <class T>
FrontArgument front_argument(const T& value) {
  return {&kFrontType<T>, &value};
}

// The kernel of a front for boxed calls, and what its kernel for others is called with.
class BoxedFront final : public c10::OperatorKernel {
 public:
  explicit BoxedFront(FrontState state) : state_(std::move(state)) {}
  const FrontState& state() const { return state_; }
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);

 private:
  const FrontState state_;
};

template <class Schema>
class Front;
template <class R, class... A>
class Front<R(A...)> {
 public:
  static constexpr bool kHasSymbols =
      ((std::is_same_v<A, c10::SymInt> || std::is_same_v<A, c10::SymIntArrayRef>) || ...);

  static R call(c10::OperatorKernel* kernel, c10::DispatchKeySet keys, A... arguments) {
    const FrontState& state = static_cast<BoxedFront*>(kernel)->state();
    const Wish wish = front_wish(state.index);
    const at::Tensor* const tensors[] = {tensor_or_null(arguments)...};
    if (wish && may_be_taken(state, wish, tensors)) {
      FrontArgument given[] = {front_argument(arguments)...};
      FrontCall one(state, wish, given);
      if (one.run()) return Result<R>::of(one.results, arguments...);
      if (one.error) {
        call_kept(state, keys, std::forward<A>(arguments)...);  // whose error is what callers know
        std::rethrow_exception(one.error);
      }
    }
    return call_kept(state, keys, std::forward<A>(arguments)...);
  }

 private:
  static R call_kept(const FrontState& state, c10::DispatchKeySet keys, A... arguments) {
    return state.kept.template call<R, A...>(state.op, keys, std::forward<A>(arguments)...);
  }
  // The results; of a call that writes arguments, these in their order.
  template <class T>
  struct Result {
    static T of(FrontResults& made, A...) { return std::move(made[0]); }
  };
  template <class... T>
  struct Result<std::tuple<T...>> {
    static std::tuple<T...> of(FrontResults& made, A...) {
      size_t i = 0;
      return std::tuple<T...>{T(std::move(made[i++]))...};
    }
  };
  template <class... T>
  struct Result<std::tuple<T&...>> {
    static std::tuple<T&...> of(FrontResults&, A... arguments) {
      static_assert((std::is_same_v<A, at::Tensor&> + ...) == sizeof...(T));
      return std::tuple_cat(written<A>(arguments)...);
    }
  };
  template <class T>
  struct Result<T&> {
    static T& of(FrontResults& made, A... arguments) {
      return std::get<0>(Result<std::tuple<T&>>::of(made, std::forward<A>(arguments)...));
    }
  };
  template <class T, class V>
  static auto written(V& argument) {
    if constexpr (std::is_same_v<T, at::Tensor&>)
      return std::tuple<at::Tensor&>(argument);
    else
      return std::tuple<>();
  }
};

template <class Schema>
FrontRow front_row(const char* name, const char* overload, uint64_t others, uint64_t written) {
  return {name,
          overload,
          others,
          written,
          reinterpret_cast<void*>(&Front<Schema>::call),
          Front<Schema>::kHasSymbols};
}

}  // namespace pto::torch_adapter
