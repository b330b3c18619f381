// SPDX-License-Identifier: Apache-2.0
// Notes which instructions ran: for tests, included by the compiler before everything else.
//
//     g++ -include tests/isa_coverage.hpp ... && PTO_COVERAGE_FILE=ran.txt ./isa_test
//
// Invariant: each instantiation of an instruction that runs appends one line, "target TAB mnemonic
// TAB form TAB types", equal types written once; tests/coverage.py compares them with the tables.
// Thread safety: any thread.
#pragma once
#include <cstdlib>
#include <fstream>
#include <string>

// The compiler reads only the types of the operands. Instructions of the same types share all code
// but the test of a flag; a call with strings in each took a fifth of these tests' compile time.
#define PTO_ENTER(mnemonic, form, ...)                                                         \
  {                                                                                            \
    using ::pto::coverage::atomic;                                                             \
    using ::pto::coverage::in;                                                                 \
    using ::pto::coverage::out;                                                                \
    static bool noted = false;                                                                 \
    if (!__atomic_load_n(&noted, __ATOMIC_RELAXED))                                            \
      decltype(::pto::coverage::of(__VA_ARGS__))::note(&noted, PTO_TARGET_NAME "\t" #mnemonic, \
                                                       form);                                  \
  }

namespace pto::coverage {

// "f32:", "u8:"; a class type says its own name as kElementName.
template <class T>
auto name_of(int) -> decltype(std::string(T::kElementName)) {
  return std::string(T::kElementName) + ":";
}
template <class T>
std::string name_of(long) {
  const bool is_real = T(0.5) != T(0);
  return (is_real ? "f" : T(-1) < T(0) ? "i" : "u") + std::to_string(8 * sizeof(T)) + ":";
}

// Appends the line of an instruction, once for each flag.
inline void append(bool* noted, const char* instruction, const char* form,
                   const std::string& types) {
  static const char* const path = std::getenv("PTO_COVERAGE_FILE");
  if (__atomic_exchange_n(noted, true, __ATOMIC_RELAXED) || !path) return;
  std::string first = types.substr(0, types.find(':') + 1), repeated;
  while (repeated.size() < types.size()) repeated += first;
  const std::string& written = repeated == types ? first : types;
  std::ofstream(path, std::ios::app) << instruction << '\t' << form << '\t'
                                     << written.substr(0, written.find_last_of(':')) << '\n';
}

// The element types of some operands, and what the macro says without one.
template <class... T>
struct Types {
  static void note(bool* noted, const char* instruction, const char* form) {
    append(noted, instruction, form, (std::string() + ... + name_of<T>(0)));
  }
};
struct None {
  static constexpr const char* kElementName = "-";
};

template <class... D>
Types<typename D::DType...> in(const D&...);
template <class... D>
Types<typename D::DType...> out(const D&...);
Types<> atomic(bool);

template <class... A>
Types<A...> of(Types<A...>);
template <class... A, class... B, class... Rest>
auto of(Types<A...>, Types<B...>, Rest... rest) -> decltype(of(Types<A..., B...>(), rest...));
Types<None> of(const char*);

}  // namespace pto::coverage
