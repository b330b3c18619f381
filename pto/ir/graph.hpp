// SPDX-License-Identifier: Apache-2.0
// Graph: an immutable program over tensors, in single-assignment form.
//
//     GraphBuilder b("softmax");
//     Value x = b.input("x", DType::F32, {Dim::symbol(0), Dim::symbol(1)});
//     Value e = b.unary(Opcode::exp, b.binary(Opcode::sub, x, b.reduce(Opcode::amax, x, {1})));
//     b.output(b.binary(Opcode::div, e, b.reduce(Opcode::sum, e, {1})));
//     Graph g = b.build();
//
// Invariant: a node's operands stand before it. Nodes are hash-consed: equal operation, operands,
// attributes and type give one node, which keeps all source locations and its first hints. Operands
// of an element-wise operation have equal shapes and dtypes (the builder inserts `broadcast`, never
// a cast). A reduce keeps its axes with size 1. Symbols s0, s1 ... stand for sizes known at the
// call, or defined by a `size` node, behind which they may be used, in bodies too.
// Thread safety: a Graph may be read by many threads; a builder belongs to one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/base/size_guard.hpp"

namespace pto {

// All operations: operations/operations.def lists them and says what their attributes are.
enum class Opcode : uint16_t {
#define PTO_OPERATION(op) op,
#include "pto/ir/operations/operations.def"
};

enum class Family : uint8_t { Structure, Unary, Binary, Compare, Select, Convert, Reduce };

struct OpcodeInfo {
  std::string_view name;      // "exp"
  std::string_view mnemonic;  // "TEXP"; the row form of a reduction, the CmpMode of a comparison
  Family family;
  int arity;  // operands; -1 where it varies
};
const OpcodeInfo& info(Opcode op);  // all else of an operation: operations/operation.hpp
std::optional<Opcode> parse_opcode(std::string_view name);
bool is_elementwise(Opcode op);  // unary, binary, compare, select, convert

// The user's line that made a node.
struct Location {
  std::string file;
  int line = 0;
  friend bool operator==(const Location&, const Location&) = default;
};
std::string text(const Location& location);  // "softmax.py:7"

// The user asks this of the compiler for a node: vec_tile=[1, 64], label="q".
struct Hint {
  std::string name;
  std::vector<int64_t> numbers;
  std::string text;  // where there are no numbers
  friend bool operator==(const Hint&, const Hint&) = default;
};
using Hints = std::shared_ptr<const std::vector<Hint>>;  // null: none
std::string text(const Hint& hint);                      // "vec_tile=[1, 64]"

struct Type {
  DType dtype = DType::F32;
  Dims shape;
  friend bool operator==(const Type&, const Type&) = default;
};
std::string text(const Type& type);  // "f32[s0, 384]"

// Two sizes that must be equal at run time, and the user's line that asks for it.
struct Guard : SizeGuard {
  Location location;  // not part of identity
};

class Graph;
using Value = int;  // index of a node in its graph

// Attributes of a node; only the fields that its operation names are set.
struct Attributes {
  std::string name;  // input, scalar, tile; precision of matmul; comparisons of size
  std::variant<double, int64_t> value = 0.0;  // constant
  std::vector<int64_t> axes;                  // reduce, transpose, along; steps: view, update
  int64_t index = 0;                          // result
  Dim size;                                   // size, extent
  std::vector<std::shared_ptr<const Graph>> bodies;  // of loop, repeat, branch, fused, tile
  friend bool operator==(const Attributes& a, const Attributes& b);  // bodies compare by content
};

struct Node {
  Opcode op;
  std::vector<Value> operands;
  Attributes attributes;
  Type type;                        // of its first result
  std::vector<Location> locations;  // not part of identity
  Hints hints = {};                 // of the first of equal nodes; not part of identity

  bool is_parameter() const { return op == Opcode::input || op == Opcode::scalar; }
  bool has_body() const { return !attributes.bodies.empty(); }
  const Graph& body(size_t i = 0) const { return *attributes.bodies[i]; }
};

// Returns hints with one more behind them.
Hints with_hint(const Hints& hints, Hint hint);

// Returns the hint of this name that a node carries, or null.
const Hint* find_hint(const Node& node, std::string_view name);

// Returns the last number of such a hint, or `otherwise`.
int64_t hint_number(const Node& node, std::string_view name, int64_t otherwise = 0);

// Returns the value of a constant of an integer type.
std::optional<int64_t> whole_number(const Node& node);

// Returns the number of the operand that an addition takes as a product which it does not round
// first: the hint takes_product, see passes/pair_products.hpp.
std::optional<size_t> taken_product(const Node& node);

class Graph {
 public:
  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](Value v) const { return nodes_[static_cast<size_t>(v)]; }
  const std::vector<Value>& inputs() const { return inputs_; }    // input and scalar nodes in order
  const std::vector<Value>& outputs() const { return outputs_; }  // may repeat
  const std::vector<Guard>& guards() const { return guards_; }

  friend bool operator==(const Graph& a, const Graph& b);  // ignores locations

 private:
  friend class GraphBuilder;
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> inputs_, outputs_;
  std::vector<Guard> guards_;
};

// Builds a graph: infers types, checks operands (pto::Error with the current location), and merges
// equal nodes.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  // From now on a symbol may also be 1, so broadcasting it gives broadcast(a, b), not a guard. Such
  // a graph serves for its shapes only.
  void let_sizes_be_one() { sizes_may_be_one_ = true; }
  bool sizes_may_be_one() const { return sizes_may_be_one_; }  // so may those of its bodies

  void set_location(Location location);  // for the nodes that follow
  void clear_location();
  void set_hints(Hints hints);  // for the nodes that follow

  Value input(std::string name, DType dtype, Dims shape);
  Value scalar(std::string name, DType dtype);
  Value constant(double value, DType dtype);
  Value constant(int64_t value, DType dtype);

  Value unary(Opcode op, Value a);
  Value binary(Opcode op, Value a, Value b);  // broadcasts; also compares (result bool)
  Value where(Value condition, Value a, Value b);
  Value cast(Value a, DType dtype);
  Value reduce(Opcode op, Value a, std::vector<int64_t> axes);  // negative axes count from the end
  Value broadcast(Value a, Dims shape);
  Value reshape(Value a, Dims shape);  // to its own shape: a
  Value transpose(Value a, std::vector<int64_t> axes);
  // Elements of a part may be some steps apart, one an axis; none: neighbours.
  Value view(Value a, std::vector<Value> offsets, Dims shape, std::vector<int64_t> steps = {});
  Value update(Value into, Value part, std::vector<Value> offsets, std::vector<int64_t> steps = {});
  Value concat(std::vector<Value> parts, int64_t axis);
  Value iota(Dims shape, int64_t axis);
  Value along(Opcode op, std::vector<Value> operands, int64_t axis);  // gather, scatters, scans
  Value empty(const Type& type, int64_t index);  // apart from those of another index
  Value sort(Opcode op, Value a);                // or sort_descending; result 1: positions
  // A size that no other value defines. Where it counts what is not true of `condition`, a check of
  // it shows the comparisons in there whose sides need not be computed for that.
  Value size(Value count, const Dim& symbol, Value condition = -1);
  Value extent(const Dim& size);
  Value matmul(Value a, Value b);
  Value matmul(Value a, Value b, DType result, std::string precision = "");
  Value loop(Value start, Value stop, Value step, std::vector<Value> carried, Graph body,
             std::vector<Value> others = {});
  Value repeat(std::vector<Value> carried, Graph condition, Graph step,
               std::vector<Value> others = {});
  Value branch(Value condition, std::vector<Value> operands, Graph then, Graph otherwise);
  Value fused(std::vector<Value> operands, Graph body);
  Value result(Value of, int64_t index);
  // A user's operation of elements, which broadcasts; null: it is C++ (tile_operation.hpp).
  Value tile(std::string name, std::vector<Value> operands, std::shared_ptr<const Graph> body);

  // Copies `node` with other operands (already values of this builder) and infers its type again.
  Value copy(const Node& node, std::vector<Value> operands);

  const Type& type(Value v) const;
  const Node& node(Value v) const;
  size_t count() const { return graph_.nodes_.size(); }  // of nodes
  const Graph& graph() const { return graph_; }          // what was built so far
  void add_locations(Value v, const std::vector<Location>& locations);

  // States that two sizes must be equal at run time, which the caller of the kernel checks. Equal
  // sizes add nothing; different constants throw. Broadcasting two different symbols adds a guard
  // (a symbol is never 1: sizes of 1 are constants).
  void guard_equal(const Dim& a, const Dim& b, std::string because,
                   GuardKind kind = GuardKind::Equal);

  // States that the expression of a size must have a value at run time: sizes that it broadcasts
  // fit, and its divisors are not 0. The guard has this size on both sides.
  void guard_value(const Dim& size, std::string because);

  // States what a guard of another graph states, at its line.
  void copy_guard(const Guard& guard);

  // States that a size must not be 0 at run time; throws where it is the constant 0.
  void guard_nonempty(const Dim& size, std::string because);

  // States that a size is 0 at run time, which counts the elements of which `because` is not true.
  void guard_holds(const Dim& count, std::string because);

  // Puts the inputs into another order; `inputs` holds each of them once.
  void order_inputs(std::vector<Value> inputs);

  void output(Value v);
  Graph build();  // inputs first, the rest in the order of creation; the builder is spent

 private:
  template <class F>
  auto located(F f);  // f(), whose errors get the current location
  Value add(Node node);
  void add_guard(Guard guard);  // unless the graph has it
  Value add_guarded(Node node);
  Dims meet(Opcode op, const Dims& a, const Dims& b);  // broadcasts and adds guards
  Dims meet_possible_ones(const std::string& because, const Dims& a, const Dims& b);
  Value same_shape(Value v, const Dims& shape);
  Graph graph_;
  std::unordered_multimap<size_t, Value> index_;  // hash of a node -> its value
  Location location_;
  Hints hints_;
  bool sizes_may_be_one_ = false;
};

// Returns the shape to which a and b broadcast; throws with both shapes. Two different symbols
// count as equal, and `equal`, when given, gets the pair.
Dims broadcast_shape(const Dims& a, const Dims& b, std::vector<std::pair<Dim, Dim>>* equal);

}  // namespace pto
