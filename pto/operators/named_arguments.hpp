// SPDX-License-Identifier: Apache-2.0
// NamedArguments: reads a hand-written kernel's attributes by the names in the operator's schema.
//
//     PTO_OPERATOR_KERNEL(top_k) {                    // in place of extern "C" int32_t top_k
//       const float* x = in.data<const float>(0);     // in: the KernelArguments
//       const int64_t k = named.integer("k"_arg);
//       return 0;
//     }
//
// The schema is read while the kernel is compiled, so a name costs nothing in a call, and one that
// the schema lacks is an error of the compiler. cpp_kernel (language/native_kernel.py) compiles
// such a kernel for the schema of its operator.
// Invariant: attributes count as in KernelArguments, a Tensor[] among them.
// Thread safety: immutable.
#pragma once

#include "pto/operators/kernel_arguments.hpp"

#define PTO_OPERATOR_KERNEL(name) \
  template <class Named>          \
  static int32_t name(const pto::KernelArguments& in, [[maybe_unused]] const Named& named)

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

// Returns the place of an attribute among those of a printed schema, or -1.
constexpr int place_of(const char* schema, const char* name) {
  const char* at = schema;
  while (*at++ != '(') {
  }
  for (int place = 0; *at != ')';) {
    while (*at == ',' || *at == ' ' || *at == '*') ++at;
    const bool is_list = stands(at, "Tensor[]", " ");
    const bool counts = is_list || !stands(at, "Tensor", "( ?");
    while (*at != ' ') ++at;
    if (stands(++at, name, ",=)")) return counts ? place : -1;
    place += counts;
    at = after_default(at);
  }
  return -1;
}

}  // namespace schema_text

// `Schema::text` holds the schema as text(schema) of schema.hpp prints it.
template <class Schema>
class NamedArguments {
 public:
  explicit NamedArguments(const KernelArguments& in) : in_(in) {}

  template <char... kName>
  int64_t integer(ArgumentName<kName...> name) const {
    return in_.integer(place(name));
  }
  template <char... kName>
  double real(ArgumentName<kName...> name) const {
    return in_.real(place(name));
  }
  template <char... kName>
  KernelArguments::Integers integers(ArgumentName<kName...> name) const {
    return in_.integers(place(name));
  }
  template <char... kName>
  KernelArguments::Text text(ArgumentName<kName...> name) const {
    return in_.text(place(name));
  }

 private:
  template <char... kName>
  static constexpr int place(ArgumentName<kName...>) {
    constexpr int found = schema_text::place_of(Schema::text, ArgumentName<kName...>::text);
    static_assert(found >= 0, "the operator's schema has no attribute of this name");
    return found;
  }

  const KernelArguments& in_;
};

}  // namespace pto
