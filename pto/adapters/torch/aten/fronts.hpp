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
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

namespace pto::torch_adapter {

struct FrontState {
  int32_t index;
  uint64_t others;  // a bit for each argument whose element type may be another than the rest's
  c10::OperatorHandle op;
  c10::KernelFunction kept;  // the kernel that was there before
};

struct FrontRow {
  const char* name;
  const char* overload;
  uint64_t others;
  void* kernel;      // &Front<Schema>::call
  bool has_symbols;  // whether an argument is a c10::SymInt
};

extern const FrontRow kFronts[];
extern const size_t kFrontCount;

// Which implementations may run a call: none, those that take calls by themselves, or, as
// kFirstSlot + slot, those of a slot.
using Wish = uint8_t;
constexpr Wish kOff = 0, kAnySlot = 1, kFirstSlot = 2;

using Stack = torch::jit::Stack;
using FrontResults = c10::SmallVector<at::Tensor, 4>;

// Runs front `index` on the arguments; false: it refuses. Calls that write arguments have no
// results.
using FrontRunner = bool (*)(int32_t index, Wish wish, std::span<const c10::IValue> arguments,
                             FrontResults& results);

// The wish of the calling thread for a front; kOff while it runs one.
Wish front_wish(int32_t index);

// A call of a front on its way to the runner.
//
//     FrontCall call(state, wish);
//     call.add(x), call.add(2.0);     // the arguments in their order
//     if (call.run()) return call.results[0];
//     if (call.error) ...             // what the runner threw
//
// Invariant: the runner sees only arguments that rows take: aligned, dense tensors, row by row, of
// one type but for the `others`; plain numbers. A type goes as its name, a memory format as none.
class FrontCall {
 public:
  FrontCall(const FrontState& state, Wish wish)
      : index_(state.index), wish_(wish), others_(state.others) {}
  FrontCall(const FrontCall&) = delete;
  FrontCall& operator=(const FrontCall&) = delete;
  ~FrontCall();

  void add(const at::Tensor& tensor);
  void add(const std::optional<at::Tensor>& tensor);
  void add(const at::ITensorListRef& tensors);
  void add(at::TensorList tensors);
  void add(const at::Scalar& number);
  void add(const std::optional<at::Scalar>& number);
  void add(bool yes);
  void add(int64_t number);
  void add(double number);
  void add(c10::SymInt number);
  void add(at::IntArrayRef numbers);
  void add(c10::SymIntArrayRef numbers);
  void add(at::OptionalIntArrayRef numbers);
  void add(std::optional<int64_t> number);
  void add(std::optional<double> number);
  void add(std::string_view text);
  void add(std::optional<std::string_view> text);
  void add(at::ScalarType type);
  void add(std::optional<at::ScalarType> type);
  void add(std::optional<at::MemoryFormat> format);
  void add(std::array<bool, 2> each);
  void add(std::array<bool, 3> each);
  void add(const c10::IValue& value, const c10::Argument& argument);  // of a boxed call

  bool run();

  FrontResults results;
  std::exception_ptr error;

 private:
  static constexpr size_t kMost = 16;  // arguments
  void check(const at::Tensor& tensor);
  void push(c10::IValue value);
  c10::IValue* arguments() { return reinterpret_cast<c10::IValue*>(room_); }

  const int32_t index_;
  const Wish wish_;
  uint64_t others_;  // of the arguments that come
  bool takes_ = true;
  int tensors_ = 0;  // that have to have one type
  at::ScalarType type_ = at::kFloat;
  size_t count_ = 0;
  alignas(c10::IValue) std::byte room_[kMost * sizeof(c10::IValue)];
};

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
    if (const Wish wish = front_wish(state.index)) {
      FrontCall one(state, wish);
      (one.add(arguments), ...);
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
FrontRow front_row(const char* name, const char* overload, uint64_t others) {
  return {name, overload, others, reinterpret_cast<void*>(&Front<Schema>::call),
          Front<Schema>::kHasSymbols};
}

}  // namespace pto::torch_adapter
