// SPDX-License-Identifier: Apache-2.0
// Thunks: typed calls of at::_ops, one for each overload, over arguments that a plan holds.
//
//     const Thunk* add = find_thunk({"aten::add", "out"});     // null: this PyTorch has no such
//     Held x = add->hold[0](value);        // for each argument, once
//     add->call(arguments, &results);      // at::_ops::add_out::call(...); null: drops the results
//
// generate.py writes the file that lists them, for the headers of the PyTorch that is installed.
//
// Thread safety: calls of distinct arguments may run at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pto::torch_adapter {

using Stack = torch::jit::Stack;
using Held = std::shared_ptr<void>;  // an argument as Stored<T>::type

struct Thunk {
  const char* name;      // "aten::add"
  const char* overload;  // "out"
  void (*function)();    // at::_ops::add_out::call
  Held (*const* hold)(c10::IValue&);
  void (*typed)(void (*function)(), void* const* arguments, Stack* results);

  void call(void* const* arguments, Stack* results) const { typed(function, arguments, results); }
};

extern const Thunk kThunks[];
extern const size_t kThunkCount;

const Thunk* find_thunk(const c10::OperatorName& name);

// A plan's form of an argument of type T: views of lists and texts become what they view.
template <class T>
struct Stored {
  using type = T;
};
template <class T>
struct Stored<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <>
struct Stored<at::ITensorListRef> {
  using type = std::vector<at::Tensor>;
};
template <class T>
struct Stored<std::optional<c10::ArrayRef<T>>> {
  using type = std::optional<std::vector<T>>;
};
template <class T>
struct Stored<c10::OptionalArrayRef<T>> {
  using type = std::optional<std::vector<T>>;
};
template <>
struct Stored<std::string_view> {
  using type = std::string;
};
template <>
struct Stored<std::optional<std::string_view>> {
  using type = std::optional<std::string>;
};

// The value as a list of numbers that may be symbols: such a list may hold plain integers.
inline std::vector<c10::SymInt> symbolic(const c10::IValue& value) {
  std::vector<c10::SymInt> made;
  for (const c10::IValue& one : value.toListRef()) made.push_back(one.toSymInt());
  return made;
}

template <class T>
Held hold(c10::IValue& value) {
  using S = typename Stored<T>::type;
  if constexpr (std::is_same_v<S, std::vector<c10::SymInt>>) {
    return std::make_shared<S>(symbolic(value));
  } else if constexpr (std::is_same_v<S, std::optional<std::vector<c10::SymInt>>>) {
    return std::make_shared<S>(value.isNone() ? S() : S(symbolic(value)));
  } else {
    return std::make_shared<S>(value.to<S>());
  }
}

// The held argument as PyTorch's function takes it.
template <class T>
decltype(auto) as_argument(void* held) {
  using D = std::decay_t<T>;
  auto& stored = *static_cast<typename Stored<D>::type*>(held);
  if constexpr (std::is_reference_v<T> && std::is_same_v<typename Stored<D>::type, D>) {
    return static_cast<D&>(stored);
  } else if constexpr (requires {
                         typename D::value_type;
                         *stored;
                       } &&
                       !std::is_same_v<typename Stored<D>::type, D>) {
    return stored ? D(*stored) : D();  // optional lists and texts
  } else {
    return D(stored);
  }
}

template <class T>
void push(Stack& results, T& made) {
  results.emplace_back(made);
}
template <class... T>
void push(Stack& results, std::tuple<T...>& made) {
  std::apply([&](auto&... one) { (push(results, one), ...); }, made);
}

// Calls of one signature, which many overloads share.
template <class Schema>
struct Typed;
template <class R, class... A>
struct Typed<R(A...)> {
  static constexpr Held (*kHold[sizeof...(A) + 1])(c10::IValue&) = {&hold<std::decay_t<A>>...};

  template <size_t... I>
  static R call(R (*function)(A...), void* const* arguments, std::index_sequence<I...>) {
    return function(as_argument<A>(arguments[I])...);
  }
  static void call(void (*function)(), void* const* arguments, Stack* results) {
    const auto typed = reinterpret_cast<R (*)(A...)>(function);
    constexpr std::index_sequence_for<A...> kAll;
    if constexpr (std::is_void_v<R>) {
      call(typed, arguments, kAll);
    } else {
      R made = call(typed, arguments, kAll);
      if (results) push(*results, made);
    }
  }
};

}  // namespace pto::torch_adapter
