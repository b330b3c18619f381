// SPDX-License-Identifier: Apache-2.0
// GraphPrinter: prints the statements of one graph of a program: the root, or the body of a loop.
//
//     GraphPrinter body(text, graph, places, numbers, given);
//     body.print();              // statements; what fails returns from the function around them
//     body.number(out);          // an expression
//
// print_program.hpp says what the text looks like.
//
// Thread safety: one printer belongs to one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pto/codegen/code_writer.hpp"
#include "pto/codegen/memref.hpp"
#include "pto/codegen/outline.hpp"
#include "pto/codegen/storage.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// The text of a program, which the printers of its graphs share.
struct ProgramText {
  std::string name;
  CodeWriter functions;   // the kernels
  CodeWriter statements;  // of the function that calls them
  int next = 0;           // number of the next variable
  Outline outline;
  std::map<std::string, std::string> kernels;  // names of functions, by text without them
  bool is_recorded = false;
  std::vector<PackedSpec> packed;  // of constants that products read on their right
  std::map<int, std::pair<std::string, Type>> constants;  // names and types, by tensor of the call
  std::vector<std::string> trips = {"-1"};                // the variable of the innermost loop
  std::string variable(const char* prefix) { return prefix + std::to_string(next++); }
};

class GraphPrinter {
 public:
  // `outputs[k]` is the memory of output k where it is given.
  GraphPrinter(ProgramText& text, const Graph& graph, bool is_root,
               std::vector<std::optional<MemRef>> outputs, Storage storage)
      : text_(text),
        w_(text.statements),
        graph_(graph),
        is_root_(is_root),
        outputs_(std::move(outputs)),
        storage_(std::move(storage)),
        buffers_(storage_.given.size()) {}

  void set_place(Value v, MemRef place) { places_[v] = std::move(place); }
  void add_holder(Value v) { holders_.push_back(v); }  // of the root: of the next output
  void set_number(Value v, std::string name) { numbers_[v] = std::move(name); }

  void print();
  // Returns an expression of the C++ type of the value's elements; loads what lies in memory.
  std::string number(Value v);

 private:
  struct RowsFunction {  // that a product of a loop asks for: function(trip, trip of a loop)
    Value loop, product;
    std::string function;
    bool is_next;  // in the next trip around the loop
  };

  void print_node(Value v);
  void print_recorded(Value v);

  // --- numbers and sizes: print_numbers.cpp ------------------------------------------------------
  void print_number(Value v);
  void print_size(Value v);
  void print_guards(const std::vector<int64_t>& defined, const Node* size = nullptr);
  void print_check(const Guard& guard, const Node& size);
  void print_quotient(const Node& node, const Dim& quotient);

  // --- memory: print_memory.cpp ------------------------------------------------------------------
  MemRef home_of(Made made, const Type& type);
  MemRef fresh(const Type& type);
  void copy(const MemRef& to, const MemRef& from, bool may_be_same = false);
  std::vector<std::string> offsets_of(const Node& node, size_t first);
  void check_part(const Node& node, const std::vector<std::string>& offsets, const Dims& whole,
                  const Dims& part);
  void print_view(Value v);
  void print_move(Value v);
  void print_update(Value v);
  void print_concat(Value v);
  MemRef joined_part(const MemRef& whole, const Node& concat, size_t place) const;
  void copy_outputs();

  // --- operations along an axis: print_along.cpp -------------------------------------------------
  void print_gather(Value v);
  void print_pages_ahead(Value v);
  bool has_copied_moves(Value v) const;
  bool stays(Value v) const;
  void print_scatter(Value v);
  void print_sort(Value v);
  std::optional<Dim> read_of_sorted(Value v) const;
  void print_scan(Value v);
  // Declares tensors by these names; inside of a block.
  void define_tensors(const std::vector<std::pair<std::string, MemRef>>& tensors);

  // --- work: print_work.cpp ----------------------------------------------------------------------
  void print_matmul(Value v);
  // An expression for the packed copy of a constant on the right of a product, or "nullptr".
  std::string packed_right(const MemRef& right, int precision);
  void print_fused(Value v);

  // --- control flow: print_control.cpp -----------------------------------------------------------
  struct Result {                  // of a loop, repeat or branch
    std::string number;            // its variable, or
    std::optional<MemRef> memory;  // its memory
    int start = -1;                // the operand whose value it has at first
  };
  using Results = std::vector<Result>;
  Results results_of(Value v);
  GraphPrinter printer_of(Value v, const Graph& body, const Results& results,
                          const std::string& index, bool computes);
  // Values for the members of the same names of a body's printer.
  struct Ahead {
    std::string next, trip;
    std::vector<RowsFunction> rows;
    std::map<Value, std::string> shares;
  };
  void print_body(Value v, const Graph& body, const Results& results, const std::string& index,
                  const Ahead& ahead = {});
  static std::string index_definition(const std::string& index, const std::string& start,
                                      const std::string& k, const std::string& step);
  void open_stretch(const Graph& body, const std::string& k, const std::string& count);
  void print_loop(Value v);
  // Prints the choice of a step for a loop that takes any; returns its variable.
  std::string print_step(Value v, const std::string& stop);
  void print_repeat(Value v);
  void print_branch(Value v);

  // --- memory asked for ahead: print_ahead.cpp --------------------------------------------------
  // An expression for the memory that the product behind this one reads, or "".
  std::string soon_of(Value product);
  // Prints a function that finds, for an iteration, what its first product reads; returns its name,
  // or "".
  std::string print_next(Value loop, const Results& results, const std::string& count,
                         const std::string& start, const std::string& step);
  // Prints a function for each product of the loops that are all the work of another's body: it
  // finds, for iterations of both, what the product reads. That in the loop before asks for it.
  std::vector<RowsFunction> print_rows(Value loop, const Results& results, const std::string& count,
                                       const std::string& start, const std::string& step);
  // Prints such a function for `product` in the loop `work`; returns its name, or "".
  std::string print_rows_of(Value loop, Value work, Value product, const Results& results,
                            const std::string& count, const std::string& start,
                            const std::string& step);
  std::string found(Value v);
  // Prints what returns a report from the function around it, where the condition holds.
  void refuse(const std::string& condition, const std::string& report);

  std::string tensor_argument(const MemRef& place);

  bool has_made(Value v) const { return numbers_.count(v) || places_.count(v); }
  // Where a value lies; a number gets memory first.
  const MemRef& place(Value v);
  MemRef whole_of(int buffer, const Type& type);
  std::string where(const Node& node) const;  // the user's line, as a C++ string
  void must(const std::string& call);         // prints a call whose code ends the function

  ProgramText& text_;
  CodeWriter& w_;
  const Graph& graph_;
  const bool is_root_;
  bool has_scope_ = is_root_;           // which gives back what the block takes
  bool finds_next_ = false;             // the statements only say where memory lies
  std::map<Value, std::string> steps_;  // of loops that take any: also the last input of the body
  std::string next_;                // an expression for what the next iteration reads first, or ""
  std::vector<RowsFunction> rows_;  // of a loop in here
  std::string trip_;                // the variable that counts iterations
  std::map<Value, std::string> shares_;  // of products: expressions for what they ask for
  std::vector<std::optional<MemRef>> outputs_;
  std::vector<Value> holders_;
  Storage storage_;
  std::vector<std::optional<MemRef>> buffers_;
  std::string where_ = "\"\"";  // the line of the statement that is printed, as a C++ string
  std::set<Value> held_;        // inputs in whose memory outputs are written
  std::map<Value, MemRef> places_;
  std::map<Made, MemRef> made_;
  std::map<Value, std::string> numbers_;
  std::map<Made, std::string> made_numbers_;  // of loops
};

// Says whether a node gathers pages that products alone read, so that they may stay where they
// lie.
bool gathers_pages(const Graph& graph, Value v);

// Returns an estimate, as a C++ expression of type double, of the bytes that a graph moves;
// products and loops count as bytes too.
std::string cost_of(const Graph& graph);

}  // namespace pto
