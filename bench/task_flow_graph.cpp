// SPDX-License-Identifier: Apache-2.0
// oneTBB's flow graph: a node a task, an edge a cell that is read. It infers nothing.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <deque>

#include "bench/task_patterns.hpp"

namespace flow = oneapi::tbb::flow;
using Node = flow::continue_node<flow::continue_msg>;

struct FlowGraph::Nodes {
  oneapi::tbb::global_control limit;
  oneapi::tbb::task_arena arena;
  flow::graph graph;
  std::deque<Node> nodes;
  std::vector<Node*> roots;

  explicit Nodes(int threads)
      : limit(oneapi::tbb::global_control::max_allowed_parallelism, size_t(threads)),
        arena(threads) {}
};

FlowGraph::FlowGraph(const Graph& graph, int threads, Body body) : nodes_(new Nodes(threads)) {
  nodes_->arena.execute([&] {
    std::deque<Node>& nodes = nodes_->nodes;
    nodes_->graph.reset();
    for (int64_t i = 0; i < graph.tasks; ++i) {
      Node& node = nodes.emplace_back(nodes_->graph, [=](flow::continue_msg) { body(i); });
      const int64_t begin = graph.first[size_t(i)], end = graph.first[size_t(i) + 1];
      for (int64_t k = begin; k < end; ++k)
        flow::make_edge(nodes[size_t(graph.reads[size_t(k)])], node);
      const bool follows = graph.pattern == Pattern::Chain && i > 0;
      if (follows) flow::make_edge(nodes[size_t(i) - 1], node);
      if (begin == end && !follows) nodes_->roots.push_back(&node);
    }
  });
}

FlowGraph::~FlowGraph() { delete nodes_; }

void FlowGraph::run() {
  nodes_->arena.execute([&] {
    for (Node* root : nodes_->roots) root->try_put(flow::continue_msg());
    nodes_->graph.wait_for_all();
  });
}

void with_flow_graph(const Graph& graph, int threads, Body body) {
  FlowGraph(graph, threads, body).run();
}
