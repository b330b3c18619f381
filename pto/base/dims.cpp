// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dims.hpp"

#include <algorithm>

#include "pto/base/error.hpp"
#include "pto/base/size_program.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

bool is_chain(DimOp op) { return op == DimOp::Add || op == DimOp::Mul || op >= DimOp::Min; }

// Computes `a op b` of constants.
int64_t apply(DimOp op, int64_t a, int64_t b) {
  const pto_dim dims[] = {{PTO_DIM_CONSTANT, 0, 0, a},
                          {PTO_DIM_CONSTANT, 0, 0, b},
                          {static_cast<int32_t>(op), 0, 1, 0}};
  try {
    return calculate_step(dims, 2, a, b);
  } catch (const SizeRefusal& refusal) {
    fail(refusal);
  }
}

// Orders expressions by operation, value, operands: negative, zero or positive.
int compare(const Dim& a, const Dim& b) {
  if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
  if (a.is_constant() || a.is_symbol()) return (a.value() > b.value()) - (a.value() < b.value());
  const int left = compare(a.left(), b.left());
  return left != 0 ? left : compare(a.right(), b.right());
}

// Returns 1 for what is at least 1, 0 for what is at least 0, and -1 for all else.
int least(const Dim& dim) {
  if (dim.is_symbol()) return 0;
  if (dim.is_constant()) return dim.value() >= 1 ? 1 : dim.value() == 0 ? 0 : -1;
  const int a = least(dim.left()), b = least(dim.right());
  switch (dim.op()) {
    case DimOp::Add:
      return std::min(a, b) < 0 ? -1 : std::max(a, b);
    case DimOp::Mul:
    case DimOp::Min:
      return std::min(a, b);
    case DimOp::Max:
      return std::max(a, b);
    case DimOp::FloorDiv:
      return a >= 0 && b == 1 ? 0 : -1;
    default:
      return -1;
  }
}

// True for a constant that a chain of `op` can drop: x+0, x*1, broadcast(x, 1).
bool is_neutral(DimOp op, int64_t value) {
  return op == DimOp::Add ? value == 0 : (op == DimOp::Mul || op == DimOp::Broadcast) && value == 1;
}

[[noreturn]] void fail_length() {
  fail({"size: an expression of more than " + std::to_string(Dim::kMaxParts) +
            " numbers and symbols",
        "sizes are computed at each call",
        "compute the size in fewer steps, or pass it as a "
        "number"});
}

// Reads the grammar that text(dim) prints, by recursive descent.
class DimReader {
 public:
  DimReader(std::string_view text, size_t& position) : text_(text), at_(position) {}

  std::optional<Dim> sum() {
    const auto first = term();
    if (!first) return std::nullopt;
    std::vector<Dim> parts{*first};
    while (peek("+") || peek("-")) {
      const bool adds = text_[at_++] == '+';
      const auto part = term();
      if (!part) return std::nullopt;
      if (adds)
        add(parts, *part);
      else
        parts = {chain(DimOp::Add, parts) - *part};
    }
    return chain(DimOp::Add, parts);
  }

 private:
  static constexpr int kMaxDepth = Dim::kMaxParts;  // everything that prints can be read

  // Sorts the parts first, so that a long chain grows at its end only.
  static Dim chain(DimOp op, std::vector<Dim>& parts) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
    Dim all = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) all = Dim::make(op, all, parts[i]);
    return all;
  }

  static void add(std::vector<Dim>& parts, const Dim& part) {
    if (parts.size() >= Dim::kMaxParts) fail_length();
    parts.push_back(part);
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool peek(std::string_view token) {
    const size_t before = at_;
    skip_space();
    if (text_.substr(at_, token.size()) == token) return true;
    at_ = before;
    return false;
  }

  bool take(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }

  std::optional<Dim> term() {
    const auto first = atom();
    if (!first) return std::nullopt;
    std::vector<Dim> parts{*first};
    while (true) {
      const bool divides = take("//"), multiplies = !divides && take("*");
      if (!divides && !multiplies && !take("%")) break;
      const auto part = atom();
      if (!part) return std::nullopt;
      if (multiplies)
        add(parts, *part);
      else
        parts = {
            Dim::make(divides ? DimOp::FloorDiv : DimOp::Mod, chain(DimOp::Mul, parts), *part)};
    }
    return chain(DimOp::Mul, parts);
  }

  std::optional<int64_t> number() {
    size_t end = at_ < text_.size() && text_[at_] == '-' ? at_ + 1 : at_;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
    const auto value = parse_int(text_.substr(at_, end - at_));
    if (value) at_ = end;
    return value;
  }

  std::optional<Dim> pair(DimOp op) {
    auto left = sum();
    if (!left || !take(",")) return std::nullopt;
    auto right = sum();
    if (!right || !take(")")) return std::nullopt;
    return Dim::make(op, *left, *right);
  }

  std::optional<Dim> atom() {
    skip_space();
    if (++depth_ > kMaxDepth) return std::nullopt;
    const auto dim = plain_atom();
    --depth_;
    return dim;
  }

  std::optional<Dim> plain_atom() {
    if (take("min(")) return pair(DimOp::Min);
    if (take("max(")) return pair(DimOp::Max);
    if (take("broadcast(")) return pair(DimOp::Broadcast);
    if (take("(")) {
      auto inner = sum();
      return inner && take(")") ? inner : std::nullopt;
    }
    const bool symbol = take("s");
    if (symbol && at_ < text_.size() && text_[at_] == '-') return std::nullopt;
    const auto value = number();
    if (!value || (symbol && *value > kMaxSymbol)) return std::nullopt;
    return symbol ? Dim::symbol(static_cast<int>(*value)) : Dim(*value);
  }

  static constexpr int64_t kMaxSymbol = 1 << 20;
  std::string_view text_;
  size_t& at_;
  int depth_ = 0;
};

}  // namespace

Dim Dim::symbol(int index) {
  PTO_ASSERT(index >= 0);
  Dim dim;
  dim.op_ = DimOp::Symbol;
  dim.value_ = index;
  return dim;
}

Dim Dim::node(DimOp op, const Dim& a, const Dim& b) {
  Dim dim;
  dim.op_ = op;
  dim.parts_ = a.parts_ + b.parts_;  // each at most kMaxParts
  if (dim.parts_ > kMaxParts) fail_length();
  dim.operands_ = std::make_shared<const std::vector<Dim>>(std::vector<Dim>{a, b});
  return dim;
}

// Inserts one part into a chain at its place: parts in order, the constant last.
Dim Dim::with_part(DimOp op, const Dim& chain, const Dim& part) {
  const bool is_chain = chain.op_ == op;
  const Dim& last = is_chain ? chain.right() : chain;
  if (last.is_constant() && part.is_constant()) {
    const int64_t constant = apply(op, last.value_, part.value_);
    if (!is_chain || (op == DimOp::Mul && constant == 0)) return constant;
    return is_neutral(op, constant) ? chain.left() : node(op, chain.left(), constant);
  }
  if (part.is_constant()) {
    if (op == DimOp::Mul && part.value_ == 0) return 0;
    return is_neutral(op, part.value_) ? chain : node(op, chain, part);
  }
  const int order = last.is_constant() ? 1 : compare(last, part);
  if (order == 0 && op >= DimOp::Min) return chain;
  if (order <= 0) return node(op, chain, part);
  if (is_chain) return node(op, with_part(op, chain.left(), part), last);
  return with_part(op, part, chain);
}

Dim Dim::make(DimOp op, const Dim& a, const Dim& b) {
  if (is_chain(op)) {
    if (b.op_ != op) return with_part(op, a, b);
    if (a.op_ != op) return with_part(op, b, a);
    return with_part(op, make(op, a, b.left()), b.right());
  }
  const bool zero_divisor = op != DimOp::Sub && b.is_constant() && b.value_ == 0;
  if (a.is_constant() && b.is_constant() && !zero_divisor) return apply(op, a.value_, b.value_);
  if (op == DimOp::Sub && a == b) return 0;
  if (op == DimOp::Sub && b.is_constant() && b.value_ != INT64_MIN)
    return make(DimOp::Add, a, Dim(-b.value_));
  if (op == DimOp::FloorDiv && b.is_constant() && b.value_ == 1) return a;
  if (op == DimOp::Mod && b.is_constant() && b.value_ == 1) return 0;
  return node(op, a, b);
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.operands_ != nullptr && a.operands_ == b.operands_) return a.op_ == b.op_;
  return compare(a, b) == 0;
}

Dim operator+(const Dim& a, const Dim& b) { return Dim::make(DimOp::Add, a, b); }
Dim operator-(const Dim& a, const Dim& b) { return Dim::make(DimOp::Sub, a, b); }
Dim operator*(const Dim& a, const Dim& b) { return Dim::make(DimOp::Mul, a, b); }
Dim floordiv(const Dim& a, const Dim& b) { return Dim::make(DimOp::FloorDiv, a, b); }
Dim mod(const Dim& a, const Dim& b) { return Dim::make(DimOp::Mod, a, b); }
Dim min(const Dim& a, const Dim& b) { return Dim::make(DimOp::Min, a, b); }
Dim max(const Dim& a, const Dim& b) { return Dim::make(DimOp::Max, a, b); }
Dim broadcast(const Dim& a, const Dim& b) { return Dim::make(DimOp::Broadcast, a, b); }

bool is_positive(const Dim& dim) { return least(dim) == 1; }

std::string text(const Dim& dim) { return size_text(dim); }

std::string text(const Dims& dims) {
  return "[" + joined(dims, ", ", [](const Dim& dim) { return text(dim); }) + "]";
}

std::optional<Dim> read_dim(std::string_view text, size_t& position) {
  return DimReader(text, position).sum();
}

Dim parse_dim(std::string_view text) {
  size_t position = 0;
  const auto dim = read_dim(text, position);
  if (!dim || position != text.size())
    fail({"size " + in_quotes(text) + ": unexpected text at column " + std::to_string(position + 1),
          "a size is made of numbers, symbols s0 s1 ..., + - * // % ( ) min(,) max(,) broadcast(,)",
          "correct the expression"});
  return *dim;
}

int64_t evaluate(const Dim& dim, const std::vector<int64_t>& symbols) {
  each_symbol(dim, [&](int64_t symbol) {
    if (static_cast<size_t>(symbol) < symbols.size()) return;
    fail({"size s" + text(symbol) + " has no value; the number of known symbols is " +
              std::to_string(symbols.size()),
          "every symbol must come from the size of an input",
          "give the value of s" + text(symbol)});
  });
  return SizeProgram(dim).evaluate(symbols.data());
}

Dim substitute(const Dim& dim, const std::vector<Dim>& replacement) {
  SizeSteps all;
  all.add(dim);
  std::vector<Dim> sizes(all.steps.size());
  DimSizes rules(all.steps.data());
  const auto symbol = [&](int64_t index) {
    return static_cast<size_t>(index) < replacement.size() ? replacement[static_cast<size_t>(index)]
                                                           : Dim::symbol(static_cast<int>(index));
  };
  evaluate_steps(all.steps.data(), static_cast<int32_t>(sizes.size()), symbol, rules, sizes.data());
  return sizes.back();
}

Dim product(const Dims& dims) {
  Dim all = 1;
  for (const Dim& dim : dims) all = all * dim;
  return all;
}

}  // namespace pto
