// SPDX-License-Identifier: Apache-2.0
#include "pto/base/text.hpp"

#include <charconv>
#include <cmath>

namespace pto {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the character that `\x` stands for; the caller handles 'x'.
std::optional<char> escaped(char x) {
  switch (x) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case '"':
    case '\\':
      return x;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string text(double value) {
  if (std::isnan(value)) return "nan";
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end);
}

std::string text(int64_t value) { return std::to_string(value); }

std::string text(std::span<const int64_t> values) {
  return "[" + joined(values, ", ", [](int64_t value) { return text(value); }) + "]";
}

std::optional<double> parse_double(std::string_view text) { return parse_number<double>(text); }
std::optional<int64_t> parse_int(std::string_view text) { return parse_number<int64_t>(text); }

std::string in_quotes(std::string_view raw) {
  std::string out = "\"";
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::optional<std::string> read_quoted(std::string_view text, size_t& position) {
  if (position >= text.size() || text[position] != '"') return std::nullopt;
  std::string out;
  for (size_t i = position + 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      position = i + 1;
      return out;
    }
    if (text[i] != '\\') {
      if (text[i] == '\n') return std::nullopt;
      out += text[i];
    } else if (i + 3 < text.size() && text[i + 1] == 'x') {
      const size_t high = kHex.find(text[i + 2]), low = kHex.find(text[i + 3]);
      if (high == kHex.npos || low == kHex.npos) return std::nullopt;
      out += static_cast<char>(high << 4 | low);
      i += 3;
    } else {
      const auto plain = ++i < text.size() ? escaped(text[i]) : std::nullopt;
      if (!plain) return std::nullopt;
      out += *plain;
    }
  }
  return std::nullopt;
}

}  // namespace pto
