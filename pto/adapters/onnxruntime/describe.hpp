// SPDX-License-Identifier: Apache-2.0
// Describes a graph of ONNX Runtime as JSON, for the planner in Python (plan.py reads it).
//
//     {"parent": "",
//      "nodes": [{"name": "n", "type": "Add", "domain": "", "since": 14, "provider": "",
//                 "inputs": ["x", "one"], "outer": [], "outputs": ["y"], "attributes": {}}],
//      "values": {"x": {"output": false, "constant": false, "dtype": "f32", "shape": ["N", 4]},
//                 "one": {"output": false, "constant": true, "dtype": "f32", "shape": [],
//                         "data": "0000803f"}}}
//
// Absent optional inputs are ""; a value of unknown rank has no "shape", one of an element type
// that we lack no "dtype"; an unknown size is null, a symbolic one a text. Constants of at most 1
// KiB have their bytes as "data", in hexadecimal digits. "parent" is the type of the node whose
// body the graph is, "outer" lists the values that a node's subgraphs read.
// Invariant: nodes are in ONNX Runtime's topological order.
// Thread safety: pure function of a graph that nobody changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pto/adapters/onnxruntime/api.hpp"

namespace pto::ort {

std::vector<const Node*> nodes_of(const Graph* graph);

// Returns the inputs of a node, null for absent ones, and the name of a value, "" for null.
std::vector<const ValueInfo*> inputs_of(const Node* node);
std::string_view name_of(const ValueInfo* value);

// Describes the graph; for a fused node also its "inputs" and "outputs", the places in the kernel
// context.
std::string describe(const Graph* graph, const Node* fused = nullptr);

}  // namespace pto::ort
