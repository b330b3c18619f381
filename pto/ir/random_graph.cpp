// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/random_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "pto/base/number.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

// splitmix64: equal sequences on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return bits() % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  template <class T>
  const T& one_of(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  uint64_t state_;
};

constexpr int kAxes = 8;  // symbols that are equal modulo this have equal sizes

// Only the last axis may be long, which keeps the whole small.
int64_t size_of(int64_t symbol, uint64_t seed, size_t rank) {
  static const std::vector<int64_t> kLong{2,  3,  5,  7,   8,   13,  15,  16,  17, 31,
                                          33, 64, 65, 127, 128, 129, 257, 384, 517};
  static const std::vector<int64_t> kShort{2, 3, 4, 5, 7, 8, 9};
  const auto axis = static_cast<uint64_t>(symbol % kAxes);
  Random random(seed * 31 + axis);
  random.bits();
  if (random.one_in(24)) return 0;
  if (rank == 1 && random.one_in(4)) return 4099;
  return random.one_of(axis + 1 >= rank || (axis + 2 == rank && rank == 2) ? kLong : kShort);
}

// The rows of the instruction table.
constexpr Opcode kOperations[] = {
#define PTO_UNARY(mnemonic, op, ...) Opcode::op,
#define PTO_BINARY(mnemonic, op, ...) Opcode::op,
#define PTO_COMPARE(mode, op, ...) Opcode::op,
#define PTO_SELECT(mnemonic, op, ...) Opcode::op,
#define PTO_CONVERT(mnemonic, op, ...) Opcode::op,
#define PTO_REDUCE(row, col, part, op, ...) Opcode::op,
#include "pto/isa/instructions.def"
};

// -a, or not a.
Value negated(GraphBuilder& b, Value a) {
  return b.unary(b.type(a).dtype == DType::Bool ? Opcode::logical_not : Opcode::neg, a);
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), options_(options), b_("random_" + std::to_string(seed)) {
    for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::I64})
      dtypes_.push_back(dtype);
    for (const DType dtype : {DType::F32, DType::F32, DType::F16, DType::BF16, DType::Bool})
      if (!options.exact_only || dtype == DType::F32) dtypes_.push_back(dtype);
    for (const Opcode op : kOperations)
      if (!options.exact_only || operation(op).facts.is_exact) operations_.push_back(op);
    const size_t rank = random_.one_in(8) ? 0 : 1 + random_.below(4);
    for (size_t axis = 0; axis < rank; ++axis)
      shape_.push_back(random_.one_in(5) ? Dim(size_of(static_cast<int64_t>(axis), seed, rank))
                                         : Dim::symbol(static_cast<int>(axis)));
  }

  Graph run() {
    b_.set_location({"random.py", 1});
    const size_t inputs = 1 + random_.below(3);
    for (size_t i = 0; i < inputs; ++i) add_input(i);
    const int operations =
        1 + static_cast<int>(random_.below(static_cast<size_t>(options_.operations)));
    for (int i = 0; i < operations; ++i) {
      b_.set_location({"random.py", 2 + i});
      values_.push_back(random_operation());
    }
    b_.output(values_.back());
    while (random_.one_in(3)) b_.output(random_.one_of(values_));
    return b_.build();
  }

 private:
  // Returns the whole shape, or one that broadcasts to it; sometimes other symbols of equal size.
  Dims input_shape() {
    Dims shape = shape_;
    if (random_.one_in(3))
      for (Dim& dim : shape)
        if (random_.one_in(2)) dim = 1;
    if (random_.one_in(5))
      shape.erase(shape.begin(),
                  shape.begin() + static_cast<int64_t>(random_.below(shape.size() + 1)));
    if (random_.one_in(6))
      for (Dim& dim : shape)
        if (dim.is_symbol()) dim = Dim::symbol(static_cast<int>(dim.value()) + kAxes);
    return shape;
  }

  void add_input(size_t i) {
    const std::string name = "x" + std::to_string(i);
    const DType dtype = random_.one_of(dtypes_);
    const bool first = i == 0;
    if (!first && random_.one_in(8))
      values_.push_back(b_.scalar(name, dtype));
    else
      values_.push_back(b_.input(name, dtype, first ? shape_ : input_shape()));
  }

  Value constant(DType dtype) {
    static const std::vector<double> kNumbers{0, -0.0, 1, -1, 2, 0.5, -3, 4, 0.1, 10};
    double number = random_.one_of(kNumbers);
    if (!is_float(dtype) || options_.exact_only) number = std::trunc(number);
    if (dtype == DType::Bool) number = number != 0;
    return b_.constant(number, dtype);
  }

  Value any_of(DType dtype) {
    std::vector<Value> fitting;
    for (const Value v : values_)
      if (b_.type(v).dtype == dtype) fitting.push_back(v);
    if (fitting.empty() || random_.one_in(6)) {
      if (random_.one_in(2)) return constant(dtype);
      return safe_cast(random_.one_of(values_), dtype);
    }
    return random_.one_of(fitting);
  }

  // Reduces rows, columns or the whole of this value, or returns a reduction found before.
  Value summary(Value v) {
    const DType dtype = b_.type(v).dtype;
    if (dtype == DType::Bool)
      return b_.binary(Opcode::ge, summary(any_of(DType::F32)), constant(DType::F32));
    std::vector<Value> known;
    for (const Value other : values_)
      if (b_.type(other).dtype == dtype && info(b_.node(other).op).family == Family::Reduce)
        known.push_back(other);
    if (!known.empty() && random_.one_in(3)) return random_.one_of(known);
    const auto rank = static_cast<int64_t>(b_.type(v).shape.size());
    std::vector<int64_t> axes;
    const size_t kind = random_.below(3);
    for (int64_t axis = 0; axis < rank; ++axis)
      if (kind == 0 || (axis + 1 == rank) == (kind == 1)) axes.push_back(axis);
    static const std::vector<Opcode> kAll{Opcode::amax, Opcode::amin, Opcode::sum};
    return b_.reduce(kAll[random_.below(options_.exact_only ? 2 : 3)], v, axes);
  }

  // Adds two operations in a row with one summary: x / max(x, r), say, or (x - r) / r.
  Value with_summary() {
    const DType dtype = random_.one_of(dtypes_);
    Value v = any_of(dtype);
    const Value r = summary(v);
    values_.push_back(r);
    for (int i = 0; i < 2; ++i) values_.push_back(v = joined(v, r));
    return v;
  }

  // Adds an operation of a user: the larger of x and -y, and a function of it.
  Value defined_by_user() {
    const DType dtype = random_.one_of(dtypes_);
    const Value a = any_of(dtype), b = any_of(dtype);
    if (!is_float(dtype)) return a;
    GraphBuilder body("larger");
    const Value y = body.input("y", dtype, {}), x = body.input("x", dtype, {});
    Value found = body.binary(Opcode::maximum, x, body.unary(Opcode::neg, y));
    found = body.binary(Opcode::sub, found, body.constant(2.0, dtype));
    if (!options_.exact_only && random_.one_in(2)) found = body.unary(Opcode::tanh, found);
    body.output(found);
    return b_.tile("larger", {a, b}, std::make_shared<const Graph>(body.build()));
  }

  // Joins a value or a summary with what f16 or bf16 keep of it, often as their difference.
  Value rounded() {
    const DType wide = random_.one_in(4) ? DType::F64 : DType::F32;
    const DType half = random_.one_in(2) ? DType::F16 : DType::BF16;
    Value v = any_of(wide);
    if (random_.one_in(3)) values_.push_back(v = summary(v));
    const Value back = b_.cast(b_.cast(v, half), wide);
    values_.push_back(back);
    return random_.one_in(2) ? b_.binary(Opcode::sub, v, back) : joined(v, back);
  }

  Value joined(Value a, Value b) {
    const DType dtype = b_.type(a).dtype;
    if (random_.one_in(3)) std::swap(a, b);
    for (;;) {
      const Opcode op = random_.one_of(operations_);
      const Family family = info(op).family;
      if (family == Family::Select) return b_.where(any_of(DType::Bool), a, b);
      if (!accepts(op, dtype) || skipped(op, dtype)) continue;
      if (family == Family::Compare && dtype == DType::Bool) return b_.binary(op, a, b);
      if (family == Family::Compare) return b_.where(b_.binary(op, a, b), a, b);
      if (family == Family::Binary) return b_.binary(op, a, b);
    }
  }

  // Casts from floats to integers are legal only inside the range; a maximum of nothing is -inf.
  Value safe_cast(Value v, DType dtype) {
    if (is_float(b_.type(v).dtype) && is_integer(dtype)) {
      const DType from = b_.type(v).dtype;
      const Value finite = b_.where(b_.binary(Opcode::eq, v, v), v, b_.constant(0.0, from));
      v = b_.binary(Opcode::minimum, finite, b_.constant(1000.0, from));
      v = b_.binary(Opcode::maximum, v, b_.constant(-1000.0, from));
    }
    return b_.cast(v, dtype);
  }

  Value random_operation() {
    if (options_.structure && random_.one_in(4)) return random_structure();
    if (random_.one_in(5)) return with_summary();
    if (!options_.exact_only && random_.one_in(6)) return rounded();
    if (random_.one_in(16)) return defined_by_user();
    for (;;) {
      const Opcode op = random_.one_of(operations_);
      const DType dtype = random_.one_of(dtypes_);
      const Family family = info(op).family;
      if (!accepts(op, dtype) || skipped(op, dtype)) continue;
      const Value a = any_of(dtype);
      if (family == Family::Unary) return b_.unary(op, a);
      if (family == Family::Binary || family == Family::Compare)
        return b_.binary(op, a, any_of(dtype));
      if (family == Family::Select) return b_.where(any_of(DType::Bool), a, any_of(dtype));
      if (family == Family::Convert) return safe_cast(random_.one_of(values_), dtype);
      return b_.reduce(op, a, random_axes(b_.type(a).shape.size()));
    }
  }

  // A graph of exact operations has booleans only for `where`; pow gives NaN or huge values as a
  // rule.
  bool skipped(Opcode op, DType dtype) {
    if (options_.exact_only && (info(op).family == Family::Convert || dtype == DType::Bool))
      return true;
    return (op == Opcode::pow || op == Opcode::prod) && !random_.one_in(4);
  }

  std::vector<int64_t> random_axes(size_t rank) {
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < rank; ++axis)
      if (random_.one_in(2)) axes.push_back(static_cast<int64_t>(axis));
    if (rank > 0 && random_.one_in(2)) axes = {static_cast<int64_t>(rank) - 1};
    return axes;
  }

  Value random_structure() {
    const Value a = random_.one_of(values_);
    const Dims shape = b_.type(a).shape;
    switch (random_.below(11)) {
      case 0:
        return there_and_back(a);
      case 1: {
        Dims longer = shape;
        longer.insert(longer.begin() + static_cast<int64_t>(random_.below(shape.size() + 1)), 1);
        return b_.reshape(b_.reshape(a, longer), shape);
      }
      case 2:
        return counted(a);
      case 3:
        return shape.empty() ? counted(a) : with_changed_part(a);
      case 4:
        return shape.empty() ? counted(a) : first_of_two(a);
      case 10:
        return shape.empty() ? counted(a) : with_changed_steps(a);
      case 5:
        return shape.empty() ? counted(a) : sorted(a);
      case 6:
        return shape.empty() ? counted(a) : turned(a);
      case 7:
        return shape.empty() || b_.type(a).dtype == DType::Bool ? counted(a) : scanned(a);
      case 8:
        return random_.one_in(2) ? chosen(a) : repeated(a);
      default:
        return b_.reshape(b_.reshape(a, {product(shape)}), shape);
    }
  }

  // Adds transpose(exp(transpose(a))), which keeps the shape.
  Value there_and_back(Value a) {
    std::vector<int64_t> axes, back;
    for (size_t i = 0; i < b_.type(a).shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    if (!axes.empty()) std::rotate(axes.begin(), axes.begin() + 1, axes.end());
    back.resize(axes.size());
    for (size_t i = 0; i < axes.size(); ++i)
      back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
    return b_.transpose(negated(b_, b_.transpose(a, axes)), back);
  }

  std::vector<Value> zero_offsets(Value a) {
    return std::vector<Value>(b_.type(a).shape.size(), b_.constant(int64_t(0), DType::I64));
  }

  // Adds a[:n] = -a[:n], where n is a number that says how long a is.
  Value with_changed_part(Value a) {
    Dims shape = b_.type(a).shape;
    const Dim symbol = Dim::symbol(kAxes * (4 + sizes_++));
    b_.size(b_.extent(shape[0]), symbol);
    shape[0] = symbol;
    const Value part = b_.view(a, zero_offsets(a), shape);
    return b_.update(a, negated(b_, part), zero_offsets(a));
  }

  // Adds a[::2] = -a[::2].
  Value with_changed_steps(Value a) {
    Dims shape = b_.type(a).shape;
    std::vector<int64_t> steps(shape.size(), 1);
    const size_t axis = random_.below(shape.size());
    shape[axis] = floordiv(shape[axis] + 1, Dim(2));
    steps[axis] = 2;
    const Value part = b_.view(a, zero_offsets(a), shape, steps);
    return b_.update(a, negated(b_, part), zero_offsets(a), steps);
  }

  // Adds the first half of a and -a.
  Value first_of_two(Value a) {
    const Dims shape = b_.type(a).shape;
    return b_.view(
        b_.concat({a, negated(b_, a)}, static_cast<int64_t>(random_.below(shape.size()))),
        zero_offsets(a), shape);
  }

  // Adds a in order along its last axis, by its values or by their positions.
  Value sorted(Value a) {
    const Value found = b_.sort(random_.one_in(2) ? Opcode::sort : Opcode::sort_descending, a);
    if (random_.one_in(2)) return found;
    const auto axis = static_cast<int64_t>(b_.type(a).shape.size()) - 1;
    return b_.along(Opcode::gather, {a, b_.result(found, 1)}, axis);
  }

  // Adds the lines of a in the opposite order, read from there or written to there; lines of the
  // first two axes, also those of a reshape that makes them one.
  Value turned(Value a) {
    const Dims whole = b_.type(a).shape;
    if (whole.size() > 1 && random_.one_in(4)) {
      Dims joined(whole.begin() + 1, whole.end());
      joined[0] = whole[0] * whole[1];
      return b_.reshape(lines_turned(b_.reshape(a, joined), 0, Opcode::scatter), whole);
    }
    const auto axis = static_cast<int64_t>(random_.below(whole.size()));
    const Opcode op = random_.one_in(2) || b_.type(a).dtype == DType::Bool ? Opcode::scatter
                                                                           : Opcode::scatter_add;
    return lines_turned(a, axis, random_.one_in(2) ? Opcode::gather : op);
  }
  Value lines_turned(Value a, int64_t axis, Opcode op) {
    const Dim size = b_.type(a).shape[static_cast<size_t>(axis)];
    Dims shape(b_.type(a).shape.size(), Dim(1));
    shape[static_cast<size_t>(axis)] = size;
    const Value last = b_.binary(Opcode::sub, b_.extent(size), b_.constant(int64_t(1), DType::I64));
    const Value index = b_.binary(Opcode::sub, last, b_.iota(shape, axis));
    return op == Opcode::gather ? b_.along(op, {a, index}, axis)
                                : b_.along(op, {a, index, a}, axis);
  }

  Value scanned(Value a) {
    static const std::vector<Opcode> kScans{Opcode::cumsum, Opcode::cumprod, Opcode::cummax,
                                            Opcode::cummin};
    const auto axis = static_cast<int64_t>(random_.below(b_.type(a).shape.size()));
    return b_.along(random_.one_of(kScans), {a}, axis);
  }

  // Adds the loop: for i in 0 .. 2: c = c - i or a, whichever is smaller; c is a at first
  Value counted(Value a) {
    const DType dtype = b_.type(a).dtype;
    GraphBuilder body("body");
    const Value i = body.input("i", DType::I64, {});
    const Value c = body.input("c", dtype, b_.type(a).shape);
    const Value first = body.input("first", dtype, b_.type(a).shape);
    body.output(dtype == DType::Bool
                    ? body.binary(Opcode::logical_and, body.unary(Opcode::logical_not, c), first)
                    : body.binary(Opcode::minimum, body.binary(Opcode::sub, c, body.cast(i, dtype)),
                                  first));
    const auto number = [&](int64_t n) { return b_.constant(n, DType::I64); };
    const Value start = number(0), stop = number(3), step = number(1);
    return b_.loop(start, stop, step, {a}, body.build(), {a});
  }

  // Adds: -a if the first size is above 4, or not 0, else a.
  Value chosen(Value a) {
    const Type type = b_.type(a);
    Value condition = b_.extent(type.shape.empty() ? Dim(7) : type.shape[0]);
    if (random_.one_in(2))
      condition = b_.binary(Opcode::gt, condition, b_.constant(4.0, DType::I64));
    GraphBuilder then("then"), otherwise("otherwise");
    then.output(negated(then, then.input("x", type.dtype, type.shape)));
    otherwise.output(otherwise.input("y", type.dtype, type.shape));
    return b_.branch(condition, {a}, then.build(), otherwise.build());
  }

  // Adds: n = 0; while n < 3: n, a = n + 1, -a
  Value repeated(Value a) {
    const Type type = b_.type(a);
    GraphBuilder condition("condition"), step("step");
    condition.output(condition.binary(Opcode::lt, condition.input("n", DType::I64, {}),
                                      condition.constant(3.0, DType::I64)));
    condition.input("a", type.dtype, type.shape);
    step.output(
        step.binary(Opcode::add, step.input("n", DType::I64, {}), step.constant(1.0, DType::I64)));
    step.output(negated(step, step.input("a", type.dtype, type.shape)));
    const std::vector<Value> carried{b_.constant(0.0, DType::I64), a};
    return b_.result(b_.repeat(carried, condition.build(), step.build()), 1);
  }

  Random random_;
  RandomGraphOptions options_;
  GraphBuilder b_;
  std::vector<DType> dtypes_;
  std::vector<Opcode> operations_;
  Dims shape_;
  std::vector<Value> values_;
  int sizes_ = 0;  // that nodes define
};

double special(Random& random, DType dtype) {
  switch (random.below(6)) {
    case 0:
      return NAN;
    case 1:
      return INFINITY;
    case 2:
      return -INFINITY;
    case 3:
      return -0.0;
    case 4:
      return spacing(dtype, 0) * 3;
    default:
      return largest(dtype);
  }
}

// Fills an input with normal numbers, small integers, or some special values.
enum class Fill { Numbers, Integers, Specials };

ElementNumber random_number(Random& random, DType dtype, Fill fill) {
  if (dtype == DType::Bool) return {0, random.one_in(2)};
  const auto small = static_cast<int64_t>(random.below(17)) - 8;
  if (!is_float(dtype) && fill == Fill::Specials && random.one_in(16))
    return {0, random.one_in(2) ? lowest_integer(dtype) : highest_integer(dtype)};
  if (!is_float(dtype)) return {0, is_signed(dtype) ? small : small + 8};
  if (fill == Fill::Integers) return {static_cast<double>(small), 0};
  if (fill == Fill::Specials && random.one_in(12)) return {special(random, dtype), 0};
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += random.unit() - 0.5;
  return {round_to(dtype, 2.5 * sum), 0};
}

}  // namespace

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).run();
}

std::vector<Array> random_inputs(const Graph& graph, uint64_t seed,
                                 const RandomInputOptions& options) {
  size_t rank = 0;
  for (const Value v : graph.inputs()) rank = std::max(rank, graph[v].type.shape.size());
  std::vector<int64_t> symbols;
  for (int i = 0; i < 64 * kAxes; ++i) symbols.push_back(size_of(i, seed, rank));
  std::vector<Array> inputs;
  for (const Value v : graph.inputs()) {
    const Node& node = graph[v];
    Random random(seed ^ std::hash<std::string_view>()(node.attributes.name));
    std::vector<int64_t> shape;
    for (const Dim& dim : node.type.shape) shape.push_back(evaluate(dim, symbols));
    const Fill fill = !options.specials ? Fill::Integers : static_cast<Fill>(random.below(3));
    Array array(node.type.dtype, shape);
    for (size_t i = 0; i < array.size(); ++i)
      array.set(i, random_number(random, node.type.dtype, fill));
    inputs.push_back(std::move(array));
  }
  return inputs;
}

uint64_t random_tests(uint64_t quick) {
  const char* deep = std::getenv("PTO_DEEP");
  return deep != nullptr && std::string_view(deep) == "1" ? 10 * quick : quick;
}

}  // namespace pto
