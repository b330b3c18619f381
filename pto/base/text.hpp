// SPDX-License-Identifier: Apache-2.0
// Text: values as text, exact in both directions.
//
//     text(0.1) == "0.1";
//     text(-0.0) == "-0";
//     text(std::vector<int64_t>{2, 3}) == "[2, 3]";
//     in_quotes("a\"b") == "\"a\\\"b\"";
//     joined(sizes, ", ", [](int64_t n) { return text(n); });
//
// Invariant: parse_double(text(x)) has the bits of x (every NaN prints as "nan");
// read_quoted(in_quotes(s)) == s.
// Thread safety: pure functions, independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pto {

std::string text(double value);
std::string text(int64_t value);
std::string text(std::span<const int64_t> values);  // "[2, 3]"

// Reads the whole of `text` or nothing.
std::optional<double> parse_double(std::string_view text);
std::optional<int64_t> parse_int(std::string_view text);

// Puts the text in double quotes; escapes quotes, backslashes and control characters.
std::string in_quotes(std::string_view raw);

// Reads a quoted string at `position` and moves behind it; nothing where it is malformed.
std::optional<std::string> read_quoted(std::string_view text, size_t& position);

template <class Range, class Text>
std::string joined(const Range& items, std::string_view separator, Text text_of) {
  std::string all;
  bool first = true;
  for (const auto& item : items) {
    if (!first) all += separator;
    first = false;
    all += text_of(item);
  }
  return all;
}

}  // namespace pto
