// SPDX-License-Identifier: Apache-2.0
// Mutated texts: what somebody may send instead of a graph, a size or a schema.
//
//     Mutator mutator(seed, {text_a, text_b});
//     const std::string foreign = mutator.next();   // some of a and b, changed in one to six
//     places
//
// Invariant: everything follows from the seed.
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pto {

class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<std::string> texts)
      : random_(seed), texts_(std::move(texts)) {}

  std::string next() {
    std::string text = texts_[below(texts_.size())];
    const size_t changes = 1 + below(6);
    for (size_t i = 0; i < changes; ++i) change(text);
    return text;
  }

  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

 private:
  void change(std::string& text) {
    switch (below(10)) {
      case 0:  // any byte
        if (!text.empty()) text[below(text.size())] = static_cast<char>(below(256));
        return;
      case 1: {
        const size_t start = below(text.size()), end = start + below(1 + below(60));
        text.erase(std::min(start, text.size()), end - start);
        return;
      }
      case 2:
        return text.resize(below(text.size() + 1));
      case 3:
        return insert(text, piece());
      case 4:
        return insert(text, repeated());
      case 5:
      case 6: {
        const auto [start, size] = number_in(text);
        text.replace(start, size, number());
        return;
      }
      case 7: {
        const auto [start, size] = word_in(text);
        text.replace(start, size, word());
        return;
      }
      case 8: {
        const auto [from, rows] = line_in(text);
        const std::string line = text.substr(from, rows);
        text.erase(from, rows);
        return text.insert(line_in(text).first, line), void();
      }
      default: {
        const auto [from, rows] = line_in(text);
        return text.insert(line_in(text).first, text.substr(from, rows)), void();
      }
    }
  }

  void insert(std::string& text, const std::string& more) {
    text.insert(below(text.size() + 1), more);
  }

  // Some of another text.
  std::string piece() {
    const std::string& other = texts_[below(texts_.size())];
    return other.substr(below(other.size() + 1), below(80));
  }

  // A short piece or a bracket, up to thousands of times.
  std::string repeated() {
    static const char* const kPieces[] = {"(", "[",    "{",     "min(",    "s0*",    "s1+",
                                          "%", "s0//", "1-",    "graph a", "\"",     "0",
                                          " ", "f32[", "s0%3%", "-",       "{axes=["};
    const size_t times = size_t{1} << below(13);
    const std::string one = below(3) == 0 ? piece().substr(0, 12) : kPieces[below(17)];
    std::string all;
    for (size_t i = 0; i < times; ++i) all += one;
    return all;
  }

  std::string number() {
    static const char* const kNumbers[] = {"0",
                                           "1",
                                           "2",
                                           "3",
                                           "7",
                                           "-1",
                                           "-3",
                                           "64",
                                           "4096",
                                           "65537",
                                           "2147483648",
                                           "1048576",
                                           "4611686018427387904",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "18446744073709551616",
                                           "1e308",
                                           "nan",
                                           "s0",
                                           "s1",
                                           "s2",
                                           "s1048575",
                                           "s0*s1",
                                           "s0-5",
                                           "min(s0, 1)",
                                           "s0//s1",
                                           "s0%s1",
                                           "broadcast(s0, s1)",
                                           "(s0-s1)*s0"};
    return kNumbers[below(std::size(kNumbers))];
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_' || is_digit(c); }

  template <class Fits>
  std::pair<size_t, size_t> run_in(const std::string& text, Fits fits) {
    const size_t somewhere = below(text.size() + 1);
    size_t start = somewhere;
    while (start < text.size() && !fits(text[start])) ++start;
    size_t end = start;
    while (end < text.size() && fits(text[end])) ++end;
    while (start > 0 && start < text.size() && fits(text[start - 1])) --start;
    return {start, end - start};
  }
  std::pair<size_t, size_t> number_in(const std::string& text) { return run_in(text, &is_digit); }
  std::pair<size_t, size_t> word_in(const std::string& text) { return run_in(text, &is_letter); }
  std::pair<size_t, size_t> line_in(const std::string& text) {
    const auto [start, size] = run_in(text, [](char c) { return c != '\n'; });
    return {start, std::min(size + 1, text.size() - start)};
  }

  std::string word() {
    const std::string& other = texts_[below(texts_.size())];
    const auto [start, size] = word_in(other);
    return other.substr(start, size);
  }

  std::mt19937_64 random_;
  std::vector<std::string> texts_;
};

}  // namespace pto
