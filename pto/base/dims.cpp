// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dims.hpp"

#include <algorithm>

#include "pto/base/error.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

bool is_chain(DimOp op) { return op == DimOp::Add || op == DimOp::Mul || op >= DimOp::Min; }

constexpr const char* kSigns[] = {"", "", " + ", " - ", " * ", " // ", " % "};

// Computes `a op b`; an error's text begins with `size`, such as "size s0*s1: ".
int64_t apply(DimOp op, int64_t a, int64_t b, const std::string& size = "size: ") {
  int64_t out = 0;
  switch (calculate(op, a, b, &out)) {
    case SizeFault::None:
      return out;
    case SizeFault::Mismatch:
      fail({size + text(a) + " and " + text(b) + " do not broadcast",
            "sizes are equal or one of them is 1", "pass tensors whose shapes broadcast"});
    case SizeFault::ZeroDivision:
      fail({size + text(a) + " is divided by zero", "a divisor must not be 0",
            "use sizes that are not 0 there"});
    default:
      fail({size + text(a) + kSigns[static_cast<int>(op)] + text(b) + " does not fit 64 bits",
            "sizes and their products are signed 64-bit numbers", "use smaller sizes"});
  }
}

// Orders expressions by operation, value, operands: negative, zero or positive.
int compare(const Dim& a, const Dim& b) {
  if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
  if (a.is_constant() || a.is_symbol()) return (a.value() > b.value()) - (a.value() < b.value());
  const int left = compare(a.left(), b.left());
  return left != 0 ? left : compare(a.right(), b.right());
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

int precedence(const Dim& dim) {
  switch (dim.op()) {
    case DimOp::Add:
    case DimOp::Sub:
      return 1;
    case DimOp::Mul:
    case DimOp::FloorDiv:
    case DimOp::Mod:
      return 2;
    default:
      return 3;
  }
}

std::string in_parentheses(const Dim& dim, bool needed) {
  return needed ? "(" + text(dim) + ")" : text(dim);
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

std::string text(const Dim& dim) {
  if (dim.is_constant()) return text(dim.value());
  if (dim.is_symbol()) return "s" + text(dim.value());
  if (dim.op() >= DimOp::Min) {
    const char* name = dim.op() == DimOp::Min   ? "min("
                       : dim.op() == DimOp::Max ? "max("
                                                : "broadcast(";
    return name + text(dim.left()) + ", " + text(dim.right()) + ")";
  }
  const int level = precedence(dim);
  const std::string left = in_parentheses(dim.left(), precedence(dim.left()) < level);
  const Dim& r = dim.right();
  if (dim.op() == DimOp::Add && r.is_constant() && r.value() < 0 && r.value() != INT64_MIN)
    return left + "-" + text(-r.value());
  const std::string right = in_parentheses(r, precedence(r) <= level);
  switch (dim.op()) {
    case DimOp::Add:
      return left + "+" + right;
    case DimOp::Sub:
      return left + "-" + right;
    case DimOp::Mul:
      return left + "*" + right;
    case DimOp::FloorDiv:
      return left + "//" + right;
    default:
      return left + "%" + right;
  }
}

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
  if (dim.is_constant()) return dim.value();
  if (dim.is_symbol()) {
    const auto index = static_cast<size_t>(dim.value());
    if (index >= symbols.size())
      fail({"size " + text(dim) + " has no value; the number of known symbols is " +
                std::to_string(symbols.size()),
            "every symbol must come from the size of an input", "give the value of " + text(dim)});
    return symbols[index];
  }
  const int64_t a = evaluate(dim.left(), symbols), b = evaluate(dim.right(), symbols);
  if ((dim.op() == DimOp::FloorDiv || dim.op() == DimOp::Mod) && b == 0)
    fail({"size " + text(dim) + " divides " + text(a) + " by zero",
          "the divisor " + text(dim.right()) + " must not be zero for these sizes",
          "call with other sizes"});
  int64_t value = 0;
  if (calculate(dim.op(), a, b, &value) == SizeFault::None) return value;
  return apply(dim.op(), a, b, "size " + text(dim) + ": ");
}

Dim substitute(const Dim& dim, const std::vector<Dim>& replacement) {
  if (dim.is_constant()) return dim;
  if (dim.is_symbol()) {
    const auto index = static_cast<size_t>(dim.value());
    return index < replacement.size() ? replacement[index] : dim;
  }
  return Dim::make(dim.op(), substitute(dim.left(), replacement),
                   substitute(dim.right(), replacement));
}

Dim product(const Dims& dims) {
  Dim all = 1;
  for (const Dim& dim : dims) all = all * dim;
  return all;
}

}  // namespace pto
