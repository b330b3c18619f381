// SPDX-License-Identifier: Apache-2.0
// Outline: what the text of a program does, step by step, and where its values lie, as data.
//
//     const Emitted emitted = emit(fused, {});
//     emitted.outline.steps;     // one for each node but parameters, in the order of the text
//     emitted.outline.memory;    // what the program takes beside its inputs and outputs
//
// The code generator records it while it prints, so that it tells what the text does.
//
// Invariant: block 0 is the graph itself; any other block is a body of the step that it names. Each
// node of a block's graph that is no parameter has exactly one step in that block.
// Thread safety: plain data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pto/codegen/task_limits.hpp"
#include "pto/ir/graph.hpp"
#include "pto/ir/parallel_loop.hpp"

namespace pto {

struct Outline {
  struct Block {
    int step = -1;  // whose body it is
    int body = 0;
  };
  struct LoopAxis {  // of a kernel's loop nest
    Dim size;
    bool is_reduced;
  };
  struct Step {
    int block = 0;
    Value value = -1;
    std::string function;  // of a kernel, which other steps may share
    std::vector<LoopAxis> axes;
    std::vector<std::string> places = {};  // the variables in whose memory its results lie
    bool is_parallel = false;              // a loop whose iterations run side by side, or
    LoopObstacle obstacle = {};            // why they do not
    TaskLimits limits = {};
  };
  // Memory that a block takes, in the order of the text, until its end.
  struct Memory {
    std::string name;  // "v3"; the tensors of the call have the names p0, p1 ...
    int block = 0;
    int step = -1;  // the step that takes it
    Type type;
  };
  struct Copy {  // of elements, beside what steps compute
    int block = 0;
    int step = -1;
    Type type;
    bool may_be_none = false;  // where source and target are one place
  };

  // A constant that a product has on its right: whether its packed copy is read, or why not.
  struct Constant {
    std::string name;
    bool is_packed = false;
    std::string why = {};
  };

  std::vector<Block> blocks = {{}};
  std::vector<Step> steps;
  std::vector<Memory> memory;
  std::vector<Copy> copies;
  std::map<int, Constant> constants;  // by the place among the tensors of the call
  std::vector<int> open_blocks = {0}, open_steps = {-1};  // while it is recorded
  std::map<std::string, std::string> aliases;             // variables that are parts of others

  int block() const { return open_blocks.back(); }
  int step() const { return open_steps.back(); }
  void begin_step(Value v) {
    steps.push_back({block(), v, "", {}});
    open_steps.push_back(static_cast<int>(steps.size()) - 1);
  }
  void end_step() { open_steps.pop_back(); }
  void begin_block(int body) {
    blocks.push_back({step(), body});
    open_blocks.push_back(static_cast<int>(blocks.size()) - 1);
  }
  void end_block() { open_blocks.pop_back(); }

  // Returns the variable of whose memory an expression names a part: "v4" of "v4 + i * 8".
  std::string base_of(const std::string& data) const {
    const std::string name = data.substr(0, data.find(' '));
    const auto known = aliases.find(name);
    return known == aliases.end() ? name : known->second;
  }
};

}  // namespace pto
