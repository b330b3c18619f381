// SPDX-License-Identifier: Apache-2.0
// The base of an operator class, in the spelling of the public vendor-neutral library.
//
//     Add::Call(x, y, out);                       // inputs, attributes, outputs
//     Add::Call(handle, config, x, y, 2.0, out);  // with a slot, a stream, a workspace
//     Owning z = Add::Call(u, v);                 // types with Empty(shape, dtype, device)
//     auto add = Add::Make(config, x, y, out);
//     (*add)(x, y, out);
//
// `python -m pto adapters build torch` writes the classes: infini/ops.h has all, infini/ops/add.h
// one. A call chooses the nearest signature while the program is compiled (signature.h), and is
// refused there where none takes it.
// Errors: pto::aten::Error with what, why and fix; a miss never ends the process.
//
// Thread safety: Call, Make and the other static functions may be called from any thread; an
// operator made by Make belongs to one thread at a time.
#pragma once

#include <tuple>

#include "infini/library.h"

namespace infini::ops {

class OperatorBase {
 public:
  virtual ~OperatorBase() = default;

  // Scratch memory that a call wants: none, kernels take their own.
  virtual std::size_t workspace_size_in_bytes() const { return 0; }

  void set_handle(const Handle& handle) { handle_ = handle.Clone(); }
  void set_config(const Config& config) { config_ = config.Clone(); }
  void set_stream(void* stream) { own_handle().set_stream(stream); }
  void set_workspace(void* workspace) { own_handle().set_workspace(workspace); }
  void set_workspace_size_in_bytes(std::size_t bytes) {
    own_handle().set_workspace_size_in_bytes(bytes);
  }

 protected:
  Handle& own_handle() {
    if (!handle_) handle_ = std::make_unique<Handle>();
    return *handle_;
  }
  std::unique_ptr<Handle> handle_;
  std::unique_ptr<Config> config_;
};

namespace detail {

template <class T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;
template <class T>
using Argument = std::decay_t<const Bare<T>>;  // a literal is a const char*
template <class Base, class T>
using IfOther = std::enable_if_t<!std::is_base_of_v<Base, Bare<T>>, int>;

// The first argument that is a tensor which owns memory: with Empty(shape, dtype, device).
template <class T, class = void>
struct Owns : std::false_type {};
template <class T>
struct Owns<T, std::void_t<decltype(T::Empty(std::declval<Tensor::Shape>(),
                                             std::declval<DataType>(), std::declval<Device>()))>>
    : rt::IsTensorLike<T> {};
template <class... Args>
struct FirstOwning {
  using type = void;
};
template <class First, class... Rest>
struct FirstOwning<First, Rest...> {
  using type = typename std::conditional_t<Owns<First>::value, std::enable_if<true, First>,
                                           FirstOwning<Rest...>>::type;
};

template <class Key>
constexpr std::size_t count_of() {
  return sizeof Key::kSignatures / sizeof Key::kSignatures[0];
}
template <class Key, bool returns, class... Args>
constexpr int match_of() {
  constexpr char kGiven[] = {kind_of<Argument<Args>>()..., '\0'};
  return match(Key::kSignatures, count_of<Key>(), kGiven, sizeof...(Args), returns);
}

// The operators of a class that were found, two for each signature: with outputs, with results.
template <class Key>
const pto_aten_operator** found_of() {
  static const pto_aten_operator* all[2 * count_of<Key>()];
  return all;
}
template <class Key>
const pto_aten_operator* operator_of(int i, bool returns, const Config& config) {
  const Signature& one = Key::kSignatures[i];
  const char* name = returns || !one.out ? one.functional : one.out;
  const pto_aten_operator** place = found_of<Key>() + 2 * i + (returns ? 1 : 0);
  const pto_aten_operator* op = __atomic_load_n(place, __ATOMIC_RELAXED);
  if (!op) __atomic_store_n(place, op = find(name), __ATOMIC_RELAXED);
  check_slot(op, name, config);
  return op;
}

// A result as a tensor of the caller's type, or tensors where the result is a list.
template <class Like>
Like like(const pto_aten_value& result, bool has_elements) {
  const Layout layout = layout_of(result);
  Like made = Like::Empty(layout.shape, layout.type, Device());
  if (has_elements) copy(result, Held<Like>(made).value());
  return made;
}
template <class Like, char output>
auto like_of(const pto_aten_value& result, bool has_elements) {
  if constexpr (output == 'L') {
    std::vector<Like> all;
    for (std::int64_t i = 0; i < result.count; ++i)
      all.push_back(like<Like>(result.items[i], has_elements));
    return all;
  } else {
    return like<Like>(result, has_elements);
  }
}
template <class Key, int i, class Like, std::size_t... at>
auto results_of(const Results& results, bool has_elements, std::index_sequence<at...>) {
  if constexpr (sizeof...(at) == 1)
    return like_of<Like, Key::kSignatures[i].outputs[0]>(results.all[0], has_elements);
  else
    return std::tuple(
        like_of<Like, Key::kSignatures[i].outputs[at]>(results.all[at], has_elements)...);
}

// True where a class computes a call from several operators: it has Compute(config, arguments...).
template <class Key, class Args, class = void>
struct IsComposed : std::false_type {};
template <class Key, class... Args>
struct IsComposed<Key, std::tuple<Args...>,
                  std::void_t<decltype(Key::Compute(std::declval<const Config&>(),
                                                    std::declval<const Args&>()...))>>
    : std::true_type {};

// The signature of a call with outputs; -1: the class composes it.
template <class Key, class... Args>
constexpr int signature_of() {
  constexpr int kOne = match_of<Key, false, Args...>();
  static_assert(kOne >= 0 || IsComposed<Key, std::tuple<Args...>>::value,
                "no signature of this operator takes these arguments: inputs first, then "
                "attributes, then outputs; its header in infini/ops lists them");
  return kOne;
}

template <class Key, int i, class... Args>
void call_signature(const Config& config, const Args&... args) {
  const pto_aten_operator* op = operator_of<Key>(i, false, config);
  const auto run_all = [&](const Held<Argument<Args>>&... held) {
    const pto_aten_value given[] = {held.value()..., pto_aten_value{}};
    run(Key::kSignatures[i], op, given, sizeof...(Args));
  };
  run_all(Held<Argument<Args>>(args)...);
}
template <class Key, class... Args>
void call_with_outputs(const Config& config, const Args&... args) {
  constexpr int kOne = signature_of<Key, Args...>();
  if constexpr (kOne >= 0)
    call_signature<Key, kOne>(config, args...);
  else
    Key::Compute(config, args...);
}

template <class Key, class... Args>
auto call_returning(bool has_elements, const Args&... args) {
  using Like = typename FirstOwning<Argument<Args>...>::type;
  constexpr int kOne = match_of<Key, true, Args...>();
  const pto_aten_operator* op = operator_of<Key>(kOne, true, Config());
  Results results;
  const auto run_all = [&](const Held<Argument<Args>>&... held) {
    const pto_aten_value given[] = {held.value()..., pto_aten_value{}};
    call(op, arranged(Key::kSignatures[kOne], given, sizeof...(Args)), results);
  };
  run_all(Held<Argument<Args>>(args)...);
  constexpr std::size_t kOutputs = length(Key::kSignatures[kOne].outputs);
  return results_of<Key, kOne, Like>(results, has_elements, std::make_index_sequence<kOutputs>());
}

// True where a call without outputs returns its results.
template <class Key, class... Args>
constexpr bool returns() {
  if constexpr (std::is_void_v<typename FirstOwning<Argument<Args>...>::type>)
    return false;
  else
    return match_of<Key, true, Args...>() >= 0;
}

}  // namespace detail

template <class Key>
class Operator : public OperatorBase {
 public:
  template <class... Args>
  static void Call(const Handle&, const Config& config, const Args&... args) {
    detail::call_with_outputs<Key>(config, args...);
  }
  template <class First, class... Rest, detail::IfOther<Handle, First> = 0>
  static auto Call(const First& first, const Rest&... rest) {
    if constexpr (detail::returns<Key, First, Rest...>())
      return detail::call_returning<Key>(true, first, rest...);
    else
      detail::call_with_outputs<Key>(Config(), first, rest...);
  }

  // Returns empty results of a call, of its first owning type; runs the call to learn their sizes.
  template <class... Args>
  static auto MakeReturnValue(const Args&... args) {
    static_assert(detail::returns<Key, Args...>(),
                  "no signature returns results for these arguments, or none of them has Empty");
    return detail::call_returning<Key>(false, args...);
  }

  template <class... Args>
  static std::unique_ptr<Operator> Make(const Config& config, const Args&... args) {
    constexpr int kOne = detail::signature_of<Key, Args...>();
    detail::operator_of<Key>(kOne < 0 ? 0 : kOne, false, config);
    (void)std::initializer_list<std::int32_t>{
        detail::Held<detail::Argument<Args>>(args).value().kind...};  // refuses what it cannot take
    auto made = std::make_unique<Operator>();
    made->set_config(config);
    return made;
  }
  template <class First, class... Rest, detail::IfOther<Config, First> = 0>
  static std::unique_ptr<Operator> Make(const First& first, const Rest&... rest) {
    return Make(Config(), first, rest...);
  }

  template <class... Args>
  void operator()(const Handle& handle, const Args&... args) {
    set_handle(handle);
    return operator()(args...);
  }
  template <class First, class... Rest, detail::IfOther<Handle, First> = 0>
  void operator()(const First& first, const Rest&... rest) const {
    detail::call_with_outputs<Key>(config_ ? *config_ : Config(), first, rest...);
  }

  // The slots of a device that take a call of some signature, in the order in which they are asked.
  static std::vector<std::size_t> active_implementation_indices(const Device& device) {
    if (device.type() != Device::Type::kCpu) return {};
    for (const detail::Signature& one : Key::kSignatures) {
      const char* name = one.out ? one.out : one.functional;
      if (detail::library().has_kernel(detail::find(name))) return {detail::kAten};
    }
    return {};
  }

  // Forgets the operators that were found: the next call looks for them again.
  static void clear_cache() {
    for (std::size_t i = 0; i < 2 * detail::count_of<Key>(); ++i)
      __atomic_store_n(detail::found_of<Key>() + i, nullptr, __ATOMIC_RELAXED);
  }
};

}  // namespace infini::ops
