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
#include <initializer_list>
#include <string>

#define PTO_ENTER(mnemonic, form, ...)                                          \
  {                                                                             \
    using ::pto::coverage::atomic;                                              \
    using ::pto::coverage::in;                                                  \
    using ::pto::coverage::out;                                                 \
    static const bool noted =                                                   \
        ::pto::coverage::note(PTO_TARGET_NAME, #mnemonic, form, {__VA_ARGS__}); \
    static_cast<void>(noted);                                                   \
  }

namespace pto::coverage {

// "f32", "u8"; a class type says its own name as kElementName.
template <class T>
auto name_of(int) -> decltype(std::string(T::kElementName)) {
  return T::kElementName;
}
template <class T>
std::string name_of(long) {
  const bool is_real = T(0.5) != T(0);
  return (is_real ? "f" : T(-1) < T(0) ? "i" : "u") + std::to_string(8 * sizeof(T));
}

// Inlined, so that the address of a destination that nobody wrote yet goes nowhere.
template <class... D>
__attribute__((always_inline)) inline std::string in(const D&...) {
  return ((name_of<typename D::DType>(0) + ":") + ... + std::string());
}
template <class... D>
__attribute__((always_inline)) inline std::string out(const D&... d) {
  return in(d...);
}

inline std::string atomic(bool) { return ""; }

inline bool note(const char* target, const char* mnemonic, const char* form,
                 std::initializer_list<std::string> operands) {
  static const char* const path = std::getenv("PTO_COVERAGE_FILE");
  if (!path) return false;
  std::string types;
  for (const std::string& part : operands) types += part;
  const std::string first = types.substr(0, types.find(':') + 1);
  bool all_equal = true;
  for (size_t i = 0; i < types.size(); i += first.size())
    all_equal &= types.compare(i, first.size(), first) == 0;
  if (all_equal) types = first;
  if (!types.empty()) types.pop_back();
  std::ofstream(path, std::ios::app)
      << target << '\t' << mnemonic << '\t' << form << '\t' << types << '\n';
  return true;
}

}  // namespace pto::coverage
