// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/tile_products.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "pto/ir/rebuild.hpp"
#include "pto/passes/kernel_of_tile.hpp"
#include "pto/passes/product_group.hpp"

namespace pto {
namespace {

constexpr int64_t kRowsOfBlock = 12, kColsOfBlock = 64;  // tiles lie at whole blocks of its loops
// Each tile packs little of the right operand beside what it computes. Where that is packed already
// tiles are as wide as may be instead: each converts its rows of the left one to what engines take.
constexpr int64_t kMostRows = 960, kMostCols = 512;
constexpr int64_t kLeastWork = 32 << 10, kLongest = 4096;  // few rows read long parts of b's rows
constexpr int64_t kLeastRows = 36;                         // of tiles of which there are many
constexpr int64_t kElements = 256 << 10;                   // of a tile of whole rows
constexpr int64_t kMostOfPacked = 2048;                    // columns of a tile that packs none
constexpr int64_t kTilesWanted = 8;

Dim quotient_up(const Dim& a, const Dim& b) { return floordiv(a + b - 1, b); }
Dim multiple(const Dim& size, int64_t of) { return quotient_up(size, of) * of; }

// Hints ask this of the tiles of a product.
struct Wanted {
  explicit Wanted(const Node& product)
      : tiles(std::max(kTilesWanted, hint_number(product, "workers"))),
        row_tiles(std::max(2 * kTilesWanted, tiles)),
        rows(hint_number(product, "cube_m", kRowsOfBlock)),
        cols(hint_number(product, "cube_n", kColsOfBlock)),
        is_unit(find_hint(product, "cube_m") && hint_number(product, "tiles_per_task") > 0) {}

  int64_t tiles;       // one for each worker that the user asks for, and some on any machine
  int64_t row_tiles;   // where rows alone are cut: so many that threads end at the same time
  int64_t rows, cols;  // of a unit: a tile consists of whole ones
  bool is_unit;        // a tile is one unit, since the user says how many tiles are a task
};

// Sizes of tiles and their number: sizes that the graph defines in front of the loop.
class Tiling {
 public:
  Tiling(GraphBuilder& b, int* free_symbol, const Dims& whole, const ProductGroup& group,
         const Wanted& wanted)
      : b_(b), free_symbol_(free_symbol), wanted_(wanted) {
    const auto rows_axis = static_cast<size_t>(group.axis(0));
    const Dim &outer = whole[rows_axis], &cols = whole.back();
    const Dim inner = product({whole.begin() + group.axis(0) + 1, whole.end() - 1});
    const Dim rows = outer * inner;
    size[0] = outer, count[0] = 1;
    size[1] = cols, count[1] = 1;
    if (group.cuts(0)) {
      const Dim highest = wanted_.is_unit       ? Dim(wanted_.rows)
                          : !group.cuts(1)      ? highest_of_rows(rows, cols)
                          : group.packs_right() ? highest_of_rows(rows, min(cols, kMostOfPacked))
                                                : Dim(kMostRows);
      const Dim parts = max(quotient_up(rows, max(highest, wanted_.rows)), 1);
      const Dim height = max(multiple(quotient_up(rows, parts), wanted_.rows), wanted_.rows);
      size[0] = define(is_one(inner) ? height : max(floordiv(height, max(inner, 1)), 1));
      count[0] = define(quotient_up(outer, size[0]));
    }
    if (!group.cuts(1)) return;
    const int64_t most = group.packs_right() ? kMostOfPacked : kMostCols;
    size[1] = define(wanted_.is_unit ? Dim(wanted_.cols) : width_of(rows, cols, most));
    count[1] = define(quotient_up(cols, size[1]));
  }

  Dim size[kCuts], count[kCuts];

 private:
  // Rows that fit with all their columns, but enough tiles.
  Dim highest_of_rows(const Dim& rows, const Dim& cols) const {
    const Dim fitting = floordiv(kElements, max(cols, 1) * kRowsOfBlock) * kRowsOfBlock;
    const Dim even = multiple(quotient_up(rows, wanted_.row_tiles), kRowsOfBlock);
    return max(min(min(fitting, kMostRows), max(even, kLeastRows)), kRowsOfBlock);
  }
  // Whole units, so that there are enough tiles, each with enough work.
  Dim width_of(const Dim& rows, const Dim& cols, int64_t widest) const {
    const int64_t unit = wanted_.cols, most = std::max(widest / unit, int64_t{1}) * unit;
    const Dim beside = quotient_up(wanted_.tiles, max(count[0], 1));
    const Dim width = multiple(quotient_up(cols, beside), unit);
    const Dim least = multiple(floordiv(kLeastWork, max(rows, 1)), unit);
    const int64_t longest = std::max(kLongest / unit, int64_t{1}) * unit;
    return max(min(width, most), min(max(least, unit), longest));
  }
  Dim define(const Dim& size) {
    if (size.is_constant()) return size;
    const Dim symbol = Dim::symbol((*free_symbol_)++);
    b_.size(b_.extent(size), symbol);
    return symbol;
  }

  GraphBuilder& b_;
  int* const free_symbol_;
  const Wanted wanted_;
};

// Builds the body of the loop over tiles.
class TileBody {
 public:
  TileBody(const Graph& graph, const ProductGroup& group, const Tiling& tiling, int free_symbol)
      : graph_(graph), group_(group), b_(graph.name()), free_symbol_(free_symbol) {
    const Node& product = graph[group.product()];
    if (!product.locations.empty()) b_.set_location(product.locations[0]);
    b_.set_hints(product.hints);
    const Value tile = b_.input(unique("tile"), DType::I64, {});
    for (const Value v : group.leaving())
      carried_.push_back(b_.input(unique("out"), graph[v].type.dtype, graph[v].type.shape));
    for (const Value v : product.operands) outer(v);
    for (const ProductGroup::Member& member : group.members())
      for (const Value v : graph[member.fused].operands)
        if (!group.has(v)) outer(v);
    zero_ = b_.constant(int64_t{0}, DType::I64);
    place_tile(tile, tiling);
  }

  const std::vector<Value>& others() const { return others_; }  // of the graph

  Graph build() {
    const Node& product = graph_[group_.product()];
    const Value left = part(product.operands[0], {group_.axis(0), -1}),
                right = part(product.operands[1], {-1, 1});
    made_[group_.product()] = b_.matmul(left, right, product.type.dtype, product.attributes.name);
    for (const ProductGroup::Member& member : group_.members()) run(member);
    const auto leaving = group_.leaving();
    for (size_t k = 0; k < leaving.size(); ++k) {
      const ProductGroup::Tiled& tiled = group_.tiled(leaving[k]);
      b_.output(b_.update(carried_[k], made_.at(leaving[k]),
                          offsets(graph_[leaving[k]].type.shape.size(), tiled.axes)));
    }
    return b_.build();
  }

 private:
  std::string unique(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }
  // The value of the graph as an input of the body.
  Value outer(Value v) {
    if (const auto known = made_.find(v); known != made_.end()) return known->second;
    const Node& node = graph_[v];
    others_.push_back(v);
    const std::string name = unique(node.is_parameter() ? node.attributes.name : "value");
    return made_[v] = node.op == Opcode::scalar ? b_.scalar(name, node.type.dtype)
                                                : b_.input(name, node.type.dtype, node.type.shape);
  }

  // Tiles lie in columns: the one of number t is in row t mod count of column t div count.
  void place_tile(Value tile, const Tiling& tiling) {
    const Dims& whole = graph_[group_.product()].type.shape;
    const bool cuts_both = group_.cuts(0) && group_.cuts(1);
    const Value count = cuts_both ? b_.extent(tiling.count[0]) : -1;
    for (int cut = 0; cut < kCuts; ++cut) {
      if (!group_.cuts(cut)) continue;
      const Opcode digit = cut == 0 ? Opcode::remainder : Opcode::div;
      const Value number = cuts_both ? b_.binary(digit, tile, count) : tile;
      const Value size = b_.extent(tiling.size[cut]);
      offset_[cut] = b_.binary(Opcode::mul, number, size);
      const Value rest = b_.binary(
          Opcode::sub, b_.extent(whole[static_cast<size_t>(group_.axis(cut))]), offset_[cut]);
      part_[cut] = Dim::symbol(free_symbol_++);
      b_.size(b_.binary(Opcode::minimum, size, rest), part_[cut]);
    }
  }

  std::vector<Value> offsets(size_t rank, const int (&axes)[kCuts]) const {
    std::vector<Value> found(rank, zero_);
    for (int cut = 0; cut < kCuts; ++cut)
      if (group_.cuts(cut) && axes[cut] >= 0) found[static_cast<size_t>(axes[cut])] = offset_[cut];
    return found;
  }
  // The part of an outer value that a tile reads.
  Value part(Value v, const int (&axes)[kCuts]) {
    const Value whole = outer(v);
    Dims shape = b_.type(whole).shape;
    for (int cut = 0; cut < kCuts; ++cut)
      if (group_.cuts(cut) && axes[cut] >= 0) shape[static_cast<size_t>(axes[cut])] = part_[cut];
    if (shape == b_.type(whole).shape) return whole;
    return b_.view(whole, offsets(shape.size(), axes), shape);
  }

  void run(const ProductGroup::Member& member) {
    const Node& node = graph_[member.fused];
    const Dim* parts[kCuts];
    for (const int cut : {0, 1}) parts[cut] = group_.cuts(cut) ? &part_[cut] : nullptr;
    TileKernel tile = kernel_of_tile(node.body(), member.axes, parts);
    std::vector<Value> operands;
    for (const int cut : tile.starts) operands.push_back(offset_[cut]);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      int axes[kCuts] = {-1, -1};
      const auto input = static_cast<size_t>(node.body().inputs()[i]);
      for (int cut = 0; cut < kCuts; ++cut)
        if (group_.cuts(cut)) axes[cut] = member.axes[cut][input];
      const Value v = node.operands[i];
      operands.push_back(group_.has(v) ? made_.at(v) : part(v, axes));
    }
    const Value fused = b_.fused(operands, std::move(tile.body));
    for (Value v = member.fused + 1; v < static_cast<Value>(graph_.nodes().size()); ++v)
      if (graph_[v].op == Opcode::result && graph_[v].operands[0] == member.fused) {
        made_[v] = b_.result(fused, graph_[v].attributes.index);
        b_.add_locations(made_[v], graph_[v].locations);
      }
  }

  const Graph& graph_;
  const ProductGroup& group_;
  GraphBuilder b_;
  int free_symbol_;
  std::set<std::string> names_;
  std::vector<Value> others_, carried_;
  std::map<Value, Value> made_;
  Value zero_ = -1, offset_[kCuts] = {-1, -1};
  Dim part_[kCuts];
};

// Puts the loop in the place of the group's last kernel.
Graph with_loop(const Graph& graph, const ProductGroup& group) {
  const Dims& whole = graph[group.product()].type.shape;
  const std::vector<Value> leaving = group.leaving();
  GraphBuilder b(graph.name());
  std::vector<Value> place(graph.nodes().size(), -1);
  const auto placed = [&](Value v) { return place[static_cast<size_t>(v)]; };
  const auto add_loop = [&] {
    const Node& product = graph[group.product()];
    b.clear_location();
    if (!product.locations.empty()) b.set_location(product.locations[0]);
    b.set_hints(product.hints);
    int free_symbol = free_symbol_of(graph);
    const Tiling tiling(b, &free_symbol, whole, group, Wanted(product));
    TileBody body(graph, group, tiling, free_symbol);
    std::vector<Value> carried, others;
    for (const Value v : leaving)
      carried.push_back(b.empty(graph[v].type, static_cast<int64_t>(b.count())));
    for (const Value v : body.others()) others.push_back(placed(v));
    const Value start = b.constant(int64_t{0}, DType::I64),
                step = b.constant(int64_t{1}, DType::I64);
    const Value stop = b.extent(tiling.count[0] * tiling.count[1]);
    const Value loop = b.loop(start, stop, step, carried, body.build(), others);
    for (size_t k = 0; k < leaving.size(); ++k) {
      place[static_cast<size_t>(leaving[k])] = b.result(loop, static_cast<int64_t>(k));
      b.add_locations(placed(leaving[k]), graph[leaving[k]].locations);
    }
  };
  for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v) {
    Node node = graph[v];
    if (!group.has(v)) {
      for (Value& operand : node.operands) operand = placed(operand);
      b.clear_location();
      b.set_hints(node.hints);
      place[static_cast<size_t>(v)] = b.copy(node, node.operands);
      b.add_locations(placed(v), node.locations);
    }
    if (v == group.members().back().fused) add_loop();
  }
  for (const Guard& guard : graph.guards()) b.copy_guard(guard);
  for (const Value v : graph.outputs()) b.output(placed(v));
  return b.build();
}

}  // namespace

Graph tile_products(const Graph& graph) {
  Graph now = graph;
  for (Value v = 0; v < static_cast<Value>(now.nodes().size()); ++v) {
    if (now[v].op != Opcode::matmul) continue;
    const ProductGroup group(now, v);
    if (group.pays()) now = with_loop(now, group), v = -1;
  }
  return now;
}

}  // namespace pto
