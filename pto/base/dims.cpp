// SPDX-License-Identifier: Apache-2.0
#include "pto/base/dims.hpp"

#include <algorithm>

#include "pto/base/error.hpp"
#include "pto/base/text.hpp"

namespace pto {
namespace {

bool is_chain(DimOp op) { return op == DimOp::Add || op == DimOp::Mul || op >= DimOp::Min; }

[[noreturn]] void fail_overflow() {
  fail({"size: an intermediate value does not fit 64 bits",
        "sizes and their products are signed 64-bit numbers", "use smaller sizes"});
}

[[noreturn]] void fail_broadcast(int64_t a, int64_t b) {
  fail({"sizes " + text(a) + " and " + text(b) + " do not broadcast",
        "sizes are equal or one of them is 1", "pass tensors whose shapes broadcast"});
}

// The value of `a op b`; the divisor is not zero.
int64_t apply(DimOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case DimOp::Add:
      if (__builtin_add_overflow(a, b, &out)) fail_overflow();
      return out;
    case DimOp::Sub:
      if (__builtin_sub_overflow(a, b, &out)) fail_overflow();
      return out;
    case DimOp::Mul:
      if (__builtin_mul_overflow(a, b, &out)) fail_overflow();
      return out;
    case DimOp::FloorDiv:
      if (b == -1) return apply(DimOp::Sub, 0, a);
      return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
    case DimOp::Mod:
      if (b == -1) return 0;
      return a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;
    case DimOp::Min:
      return std::min(a, b);
    case DimOp::Max:
      return std::max(a, b);
    case DimOp::Broadcast:
      if (a != b && a != 1 && b != 1) fail_broadcast(a, b);
      return a == 1 ? b : a;
    default:
      break;
  }
  PTO_ASSERT(!"a leaf has no operands");
  return 0;
}

// A total order: by operation, value, operands; negative, zero or positive.
int compare(const Dim& a, const Dim& b) {
  if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
  if (a.is_constant() || a.is_symbol()) return (a.value() > b.value()) - (a.value() < b.value());
  const int left = compare(a.left(), b.left());
  return left != 0 ? left : compare(a.right(), b.right());
}

void flatten(DimOp op, const Dim& dim, std::vector<Dim>& parts) {
  if (dim.op() == op) {
    flatten(op, dim.left(), parts);
    flatten(op, dim.right(), parts);
  } else {
    parts.push_back(dim);
  }
}

// Sorted parts with the constants folded into one, which stands last; neutral ones dropped.
std::vector<Dim> normal_parts(DimOp op, const Dim& a, const Dim& b) {
  std::vector<Dim> all, parts;
  flatten(op, a, all);
  flatten(op, b, all);
  bool has_constant = false;
  int64_t constant = 0;
  for (const Dim& part : all) {
    if (!part.is_constant()) {
      parts.push_back(part);
    } else {
      constant = has_constant ? apply(op, constant, part.value()) : part.value();
      has_constant = true;
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  if (op >= DimOp::Min) parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (op == DimOp::Mul && has_constant && constant == 0) return {Dim(0)};
  const bool neutral = (op == DimOp::Add && constant == 0) ||
                       ((op == DimOp::Mul || op == DimOp::Broadcast) && constant == 1);
  if (has_constant && (!neutral || parts.empty())) parts.emplace_back(constant);
  return parts;
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

// Recursive descent over text(dim)'s grammar.
class DimReader {
 public:
  DimReader(std::string_view text, size_t& position) : text_(text), at_(position) {}

  std::optional<Dim> sum() {
    auto left = term();
    while (left && (peek("+") || peek("-"))) {
      const DimOp op = text_[at_++] == '+' ? DimOp::Add : DimOp::Sub;
      left = combine(op, *left, term());
    }
    return left;
  }

 private:
  static constexpr int kMaxDepth = 64;

  static std::optional<Dim> combine(DimOp op, const Dim& a, const std::optional<Dim>& b) {
    return b ? std::optional(Dim::make(op, a, *b)) : std::nullopt;
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
    auto left = atom();
    while (left) {
      if (take("//")) {
        left = combine(DimOp::FloorDiv, *left, atom());
      } else if (take("*")) {
        left = combine(DimOp::Mul, *left, atom());
      } else if (take("%")) {
        left = combine(DimOp::Mod, *left, atom());
      } else {
        break;
      }
    }
    return left;
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

Dim Dim::make(DimOp op, const Dim& a, const Dim& b) {
  const auto node = [](DimOp kind, const Dim& left, const Dim& right) {
    Dim dim;
    dim.op_ = kind;
    dim.operands_ = std::make_shared<const std::vector<Dim>>(std::vector<Dim>{left, right});
    return dim;
  };
  if (is_chain(op)) {
    const std::vector<Dim> parts = normal_parts(op, a, b);
    Dim chain = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) chain = node(op, chain, parts[i]);
    return chain;
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
      fail({"size " + text(dim) + " has no value: " + std::to_string(symbols.size()) +
                " symbols are known",
            "every symbol must come from the size of an input", "give the value of " + text(dim)});
    return symbols[index];
  }
  const int64_t a = evaluate(dim.left(), symbols), b = evaluate(dim.right(), symbols);
  if ((dim.op() == DimOp::FloorDiv || dim.op() == DimOp::Mod) && b == 0)
    fail({"size " + text(dim) + " divides " + text(a) + " by zero",
          "the divisor " + text(dim.right()) + " must not be zero for these sizes",
          "call with other sizes"});
  return apply(dim.op(), a, b);
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
