// SPDX-License-Identifier: Apache-2.0
// NamedArguments: reads a hand-written kernel's arguments by the names in the operator's signature.
//
//     PTO_OPERATOR_KERNEL(top_k) {                    // in place of extern "C" int32_t top_k
//       const float* x = in.data("x"_arg);
//       const int64_t k = in.integer("k"_arg);
//       int64_t* indices = in.data("indices"_arg);   // an output
//       return 0;
//     }
//
// The signature is read while the kernel is compiled, so a name costs nothing in a call, and one
// that the signature lacks is an error of the compiler. cpp_kernel (language/native_kernel.py)
// compiles such a kernel for the signature of its operator.
// Invariant: arguments count as in KernelArguments.
// Thread safety: immutable.
#pragma once

#include "pto/operators/kernel_arguments.hpp"

#define PTO_OPERATOR_KERNEL(name) \
  template <class Named>          \
  static int32_t name([[maybe_unused]] const Named& in)

namespace pto {

template <char... kCharacters>
struct ArgumentName {
  static constexpr char text[] = {kCharacters..., '\0'};
};

inline namespace literals {

// A string as a template's arguments, an extension that GCC and Clang have.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
template <class Character, Character... kCharacters>
constexpr ArgumentName<kCharacters...> operator""_arg() {
  return {};
}
#pragma GCC diagnostic pop

}  // namespace literals

namespace schema_text {

// Says whether `word` stands at `at`, followed by a character of `ends`.
constexpr bool stands(const char* at, const char* word, const char* ends) {
  while (*word != '\0' && *at == *word) ++at, ++word;
  if (*word != '\0') return false;
  for (; *ends != '\0'; ++ends) {
    if (*at == *ends) return true;
  }
  return false;
}

// Returns the character after the default value of an argument, a comma or a parenthesis.
constexpr const char* after_default(const char* at) {
  bool is_quoted = false, is_list = false;
  for (; is_quoted || is_list || (*at != ',' && *at != ')'); ++at) {
    if (*at == '\'') is_quoted = !is_quoted;
    if (!is_quoted && (*at == '[' || *at == ']')) is_list = *at == '[';
  }
  return at;
}

// The place of a name: of an attribute among those, of a tensor, or of the first of a list, behind
// `singles` tensors and behind the lists whose lengths are the attributes `lists`.
struct Place {
  int attribute = -1, singles = -1;
  bool is_list = false;
  int n_lists = 0, lists[8] = {};
};

// Reads a printed signature with the names of its outputs.
constexpr Place place_of(const char* signature, const char* name) {
  const char* at = signature;
  while (*at++ != '(') {
  }
  Place next;
  next.attribute = next.singles = 0;
  bool is_output = false;
  for (int outputs_of_list = 0;;) {
    while (*at == ',' || *at == ' ' || *at == '*') ++at;
    if (*at == ')') {
      if (is_output) return {};
      while (*at++ != '(') {
      }
      is_output = true;
      continue;
    }
    const bool is_list = stands(at, "Tensor[]", " ");
    const bool is_single = !is_list && stands(at, "Tensor", "( ?");
    for (bool is_inside = false; is_inside || (*at != ' ' && *at != ',' && *at != ')'); ++at)
      is_inside = *at == '(' || (is_inside && *at != ')');  // of "Tensor(a!)"
    if (*at == ' ' && stands(++at, name, ",=)")) {  // an output that is an argument has no name
      if (outputs_of_list > 0) return {};           // nothing tells their number
      next.is_list = is_list;
      if (is_single || is_output) next.attribute = -1;
      if (!is_single && !is_list) next.singles = -1;
      return next;
    }
    next.singles += is_single;
    if (is_list && is_output) ++outputs_of_list;
    if (is_list && !is_output) next.lists[next.n_lists++] = next.attribute;
    next.attribute += !is_single && !is_output;
    at = after_default(at);
  }
}

}  // namespace schema_text

// The elements of a tensor, of the type that they are assigned to.
struct Elements {
  void* address;
  template <class T>
  operator T*() const {
    return static_cast<T*>(address);
  }
};

// `Signature::text`: the schema with the names of its outputs, as the system prints it.
template <class Signature>
class NamedArguments : public KernelArguments {
 public:
  explicit NamedArguments(const pto_args* args) : KernelArguments(args) {}

  template <char... kName>
  int64_t integer(ArgumentName<kName...> name) const {
    return KernelArguments::integer(attribute(name));
  }
  template <char... kName>
  double real(ArgumentName<kName...> name) const {
    return KernelArguments::real(attribute(name));
  }
  template <char... kName>
  bool is_none(ArgumentName<kName...> name) const {
    return KernelArguments::is_none(attribute(name));
  }
  template <char... kName>
  double given_real(ArgumentName<kName...> name) const {
    return KernelArguments::given_real(attribute(name));
  }
  template <char... kName>
  Integers integers(ArgumentName<kName...> name) const {
    return KernelArguments::integers(attribute(name));
  }
  template <char... kName>
  Text text(ArgumentName<kName...> name) const {
    return KernelArguments::text(attribute(name));
  }

  // By place, for a kernel that operators of different signatures share.
  using KernelArguments::is_absent;
  using KernelArguments::tensor;
  Elements data(int place) const { return {tensor(place).data}; }

  // An argument or an output; `member` counts in a Tensor[].
  template <char... kName>
  const pto_tensor& tensor(ArgumentName<kName...> name, int64_t member = 0) const {
    return KernelArguments::tensor(first(name) + static_cast<int>(member));
  }
  template <char... kName>
  Elements data(ArgumentName<kName...> name, int64_t member = 0) const {
    return {tensor(name, member).data};
  }
  template <char... kName>
  bool is_absent(ArgumentName<kName...> name) const {
    return (tensor(name).flags & PTO_TENSOR_ABSENT) != 0;
  }

 private:
  template <char... kName>
  static constexpr schema_text::Place place(ArgumentName<kName...>) {
    return schema_text::place_of(Signature::text, ArgumentName<kName...>::text);
  }
  template <char... kName>
  static constexpr int attribute(ArgumentName<kName...> name) {
    constexpr int found = place(name).attribute;
    static_assert(found >= 0, "the operator's schema has no attribute of this name");
    return found;
  }
  template <char... kName>
  int first(ArgumentName<kName...> name) const {
    constexpr schema_text::Place found = place(name);
    static_assert(found.singles >= 0, "the operator's schema has no tensor of this name");
    int index = found.singles;
    for (int i = 0; i < found.n_lists; ++i)
      index += static_cast<int>(KernelArguments::integer(found.lists[i]));
    return index;
  }
};

}  // namespace pto
