// SPDX-License-Identifier: Apache-2.0
// RegionBody: prints the loops of one region: `for (item in range) { ... }`.
//
//     RegionBody loops(body, plan, scalars);
//     const std::string text = loops.print(true);
//
// Names in the text: p<t> the data of tensor t, p<t>_<d> its stride along d, i<a> the index along
// axis a, j the position on the vector axis, n its size, v<k> the tile of instance k (v<k>w: a
// row's or an item's value spread over a tile), a<k> the accumulator of reduction k, blocks<k> the
// sums of its blocks, f<t>_<a> the axis a that tensor t has folded, open<s> the steps of sweep s
// since the last block, b<k> a row buffer, r<k> the total of reduction k behind a call, c<k> the
// size along the axis where load k is at places of an index, g<k> the distance of such a place.
//
// Thread safety: one printer belongs to one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pto/codegen/code_writer.hpp"
#include "pto/codegen/region_plan.hpp"

namespace pto {

// A name in the text: "p" and 3 give "p3".
inline std::string numbered(const char* prefix, int64_t i) { return prefix + std::to_string(i); }
// The name of an axis that a tensor has folded.
inline std::string folded(int tensor, size_t axis) {
  return numbered("f", tensor) + numbered("_", static_cast<int64_t>(axis));
}

class RegionBody {
 public:
  // `scalars[i]` is the program's scalar behind the body's i-th scalar input; names of functions
  // begin with `function`.
  RegionBody(const Graph& body, const RegionPlan& plan, const std::vector<int>& scalars,
             std::string function);

  // Prints the loops. With `buffered`, row buffers store and load values. Otherwise the loops
  // compute them again.
  std::string print(bool buffered);

  // Lists the (tensor, dim) pairs whose strides the text names, over all calls of print().
  const std::set<std::pair<int, int>>& strides() const { return strides_; }

  // Returns the text of the functions that the loops call: sweeps of a region that has many.
  const std::string& functions() const { return functions_.text(); }

 private:
  using Scope = std::map<int, std::string>;  // instance -> name of its tile

  const Node& node(int i) const { return body_[plan_.at(i).value]; }
  std::string type_of(int i) const { return compute_type(node(i).type.dtype); }
  std::string stride(int tensor, int dim);
  void define_folded();
  std::string offset(int tensor, const std::vector<AxisAccess>& accesses);
  std::string output_pointer(size_t output);

  void print_items();
  void open_loops(const std::string& open);
  std::string size_of(int axis) const;
  void close_loops();

  // Lists the sums of floats, which go in blocks: see isa/reduce/block_sums.hpp.
  std::vector<int> long_sums(int sweep) const;
  void print_row();
  void define_row_values(int sweep);
  void print_row_sweep(int sweep);
  void print_row_loops(int sweep);
  std::string total_of(int sweep, int i) const;
  bool has_sweep_functions() const;
  void call_sweep(int sweep);
  std::string type_around(const std::string& name) const;
  std::string type_of_folded(int tensor, const std::string& axis) const;
  std::string type_of_tensor(int tensor) const;
  std::string row_position() const;
  void add_to_accumulator(int i);
  void add_to_piece(int i);

  std::string fail_place(int i, const std::string& place) const;
  void define_chosen();
  std::string place_of(int i, const char* function);
  void ask_ahead(int i);
  bool is_placed_inside(const Instance& load) const;
  void define_places();
  void define_place_of_step(int i);
  void check_chosen();

  void print_piece();
  void find_innermost();
  bool is_invariant(int i, int axes) const;
  void define_invariants(int axes);
  bool takes_vectors() const;
  void print_vectors();
  void print_piece_sweep(int sweep);
  void print_stores(const std::vector<size_t>& outputs);
  std::vector<size_t> stored_in(int sweep) const;
  std::optional<int64_t> prefetch_bytes() const;
  void print_prefetch();

  const std::string* defined(int i) const;
  const std::string* defined_for_row(int i) const;
  bool is_literal(int i) const;
  std::string tile(int i);
  void define(int i, const std::string& name);
  void define_load(int i, const std::string& name);
  void define_positions(int i, const std::string& name);
  bool counts_row(int i) const;
  const std::vector<int>* first_place(int i) const;
  void define_instruction(int i, const std::string& name);
  bool takes_product(int i) const;
  std::string factors(int product);
  void define_addition(int i, const std::string& name);
  std::string literal(int i) const;
  int buffer_of(int i) const;  // -1 without

  const Graph& body_;
  const RegionPlan& plan_;
  const std::vector<int>& scalars_;
  std::vector<int> tensor_of_input_;
  std::set<int> placed_;        // loads whose place is known all along the item
  std::vector<int> innermost_;  // of each instance: the last axis along which it varies, or -1
  int inputs_ = 0;              // tensors among the inputs
  CodeWriter w_;
  bool buffered_ = false;
  int sweep_ = -1;             // the sweep being printed, -1 between sweeps
  bool by_vector_ = false;     // within print_vectors()
  std::string width_;          // the width of tiles in the current scope: "w" or "Row{}"
  std::vector<Scope> scopes_;  // the first is that of all items, the second that of one
  std::set<std::pair<int, int>> strides_;
  const std::string function_;
  CodeWriter functions_;
  std::map<std::string, std::string> sweeps_;  // names of functions, by parameters and body
};

}  // namespace pto
