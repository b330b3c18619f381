// SPDX-License-Identifier: Apache-2.0
// The plugin execution provider: a planner in Python decides which nodes it takes and what runs for
// them; no Python runs in a call.
//
// Thread safety: sessions may be made on several threads; the planner takes Python's lock itself.
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "pto/adapters/onnxruntime/custom_ops.hpp"
#include "pto/adapters/onnxruntime/describe.hpp"
#include "pto/adapters/onnxruntime/kernel.hpp"
#include "pto/adapters/onnxruntime/status.hpp"
#include "pto/adapters/onnxruntime/views.hpp"

namespace pto::ort {
namespace {

constexpr const char* kProviderName = "PtoExecutionProvider";

// Both get the JSON of describe.hpp and a place for the answer (functions at the end). They return
// 0, or a failure whose text they gave to pto_onnxruntime_fail().
using Planner = int32_t (*)(const char* json, int64_t bytes, void* answer);
Planner plan_groups = nullptr;   // of a graph: answers through pto_onnxruntime_take
Planner build_kernel = nullptr;  // of a group: answers through pto_onnxruntime_use
thread_local std::string planner_error;

void ask(Planner planner, const std::string& json, void* answer) {
  planner_error = "the planner failed without a text";
  if (planner(json.data(), static_cast<int64_t>(json.size()), answer) != 0) {
    throw std::runtime_error(planner_error);
  }
}

struct Groups {
  GraphSupport* support;
  std::vector<const Node*> nodes;
};

// A group of nodes that runs as one kernel.
struct Compiled : ComputeInfo {
  std::unique_ptr<NodeKernel> kernel;
  const Graph* graph = nullptr;  // while it is compiled
  const Node* fused = nullptr;

  Compiled() {
    CreateState = [](ComputeInfo*, ComputeContext*, void** state) -> Status* {
      *state = nullptr;
      return nullptr;
    };
    Compute = [](ComputeInfo* self, void*, KernelContext* context) -> Status* {
      return guarded([&] { static_cast<Compiled*>(self)->kernel->compute(context); });
    };
    ReleaseState = [](ComputeInfo*, void*) {};
  }
};

struct PtoProvider : Provider {
  PtoProvider() {
    GetName = [](const Provider*) { return kProviderName; };
    GetCapability = [](Provider*, const Graph* graph, GraphSupport* support) {
      return guarded([&] { take_groups(graph, support); });
    };
    Compile = [](Provider*, const Graph** graphs, const Node** fused, size_t count,
                 ComputeInfo** infos, Node**) {
      return guarded([&] {
        for (size_t i = 0; i < count; ++i) infos[i] = compile(graphs[i], fused[i]).release();
      });
    };
    GetKernelRegistry = [](Provider*, const KernelRegistry** found) {
      return guarded([&] { *found = view_registry(kProviderName); });
    };
    ReleaseNodeComputeInfos = [](Provider*, ComputeInfo** infos, size_t count) {
      for (size_t i = 0; i < count; ++i) delete static_cast<Compiled*>(infos[i]);
    };
  }

  static void take_groups(const Graph* graph, GraphSupport* support) {
    Groups groups{support, nodes_of(graph)};
    if (plan_groups && !groups.nodes.empty()) ask(plan_groups, describe(graph), &groups);
  }

  static std::unique_ptr<Compiled> compile(const Graph* graph, const Node* fused) {
    auto compiled = std::make_unique<Compiled>();
    compiled->graph = graph, compiled->fused = fused;
    ask(build_kernel, describe(graph, fused), compiled.get());
    compiled->graph = nullptr, compiled->fused = nullptr;
    if (!compiled->kernel) throw std::runtime_error("the planner built no kernel");
    return compiled;
  }
};

// Returns the model's constant at this input of a fused node; only the nodes inside know its value.
pto_tensor_ref constant_at(const Graph* graph, const Node* fused, size_t place) {
  const std::string_view name = name_of(inputs_of(fused).at(place));
  for (const Node* node : nodes_of(graph)) {
    for (const ValueInfo* input : inputs_of(node)) {
      const Value* value = nullptr;
      if (name_of(input) != name) continue;
      check(api::ValueInfo_GetInitializerValue(input, &value));
      if (value) return tensor_of(value);
    }
  }
  throw std::runtime_error("the input " + std::string(name) + " is no constant of the model");
}

struct Factory : ProviderFactory {
  Factory() {
    GetName = [](const ProviderFactory*) { return kProviderName; };
    GetVendor = [](const ProviderFactory*) { return "OpenPTO"; };
    GetVendorId = [](const ProviderFactory*) -> uint32_t { return 0; };
    GetVersion = [](const ProviderFactory*) { return PTO_VERSION; };
    GetSupportedDevices = [](ProviderFactory* self, const HardwareDevice* const* devices,
                             size_t count, ProviderDevice** found, size_t max, size_t* n) {
      return guarded([&] { pair(self, devices, count, found, max, n); });
    };
    CreateEp = [](ProviderFactory*, const HardwareDevice* const*, const KeyValuePairs* const*,
                  size_t, const SessionOptions*, const Logger*,
                  Provider** made) { return guarded([&] { *made = new PtoProvider; }); };
    ReleaseEp = [](ProviderFactory*, Provider* provider) {
      delete static_cast<PtoProvider*>(provider);
    };
    CreateAllocator = [](ProviderFactory*, const MemoryInfo*, const KeyValuePairs*,
                         Allocator** made) -> Status* {
      *made = nullptr;  // CPU memory: ONNX Runtime's own
      return nullptr;
    };
    ReleaseAllocator = [](ProviderFactory*, Allocator*) {};
    CreateDataTransfer = [](ProviderFactory*, DataTransfer** made) -> Status* {
      *made = nullptr;
      return nullptr;
    };
    IsStreamAware = [](const ProviderFactory*) { return false; };
    GetNumCustomOpDomains = [](ProviderFactory*, size_t* count) -> Status* {
      *count = 1;
      return nullptr;
    };
    GetCustomOpDomains = [](ProviderFactory*, Domain** domains, size_t count) {
      return guarded([&] {
        if (count > 0) domains[0] = operator_domain();
      });
    };
  }

  static void pair(ProviderFactory* self, const HardwareDevice* const* devices, size_t count,
                   ProviderDevice** found, size_t max, size_t* n) {
    *n = 0;
    for (size_t i = 0; i < count && *n < max; ++i) {
      if (api::HardwareDevice_Type(devices[i]) != kCpuDevice) continue;
      check(api::CreateEpDevice(self, devices[i], nullptr, nullptr, &found[(*n)++]));
    }
  }
};

}  // namespace
}  // namespace pto::ort

using namespace pto::ort;

extern "C" {

Status* CreateEpFactories(const char*, const ApiBase* base, const Logger*,
                          ProviderFactory** factories, size_t max, size_t* count) {
  return connected(base, [&] {
    *count = max > 0 ? 1 : 0;
    if (max > 0) factories[0] = new Factory;
  });
}

Status* ReleaseEpFactory(ProviderFactory* factory) {
  delete static_cast<Factory*>(factory);
  return nullptr;
}

void pto_onnxruntime_set_planner(Planner plan, Planner build) {
  plan_groups = plan;
  build_kernel = build;
}

// Sets the text of a planner's failure on this thread.
void pto_onnxruntime_fail(const char* text) { planner_error = text; }

// Makes the nodes at these places of the description one kernel. Returns 0, or non-zero.
int32_t pto_onnxruntime_take(void* answer, const int32_t* places, int32_t count) {
  const auto& groups = *static_cast<Groups*>(answer);
  std::vector<const Node*> nodes;
  for (int32_t i = 0; i < count; ++i) {
    nodes.push_back(groups.nodes.at(static_cast<size_t>(places[i])));
  }
  const FusionOptions options;
  return !succeeded(
      api::EpGraphSupportInfo_AddNodesToFuse(groups.support, nodes.data(), nodes.size(), &options));
}

// Makes the node at this place a view, see add_view(). Returns 0, or non-zero.
int32_t pto_onnxruntime_take_view(void* answer, int32_t place) {
  const auto& groups = *static_cast<Groups*>(answer);
  return !succeeded(api::EpGraphSupportInfo_AddSingleNode(
      groups.support, groups.nodes.at(static_cast<size_t>(place))));
}

void pto_onnxruntime_add_view(const char* type, int32_t first, int32_t last, int32_t view) {
  add_view(type, first, last, static_cast<View>(view));
}

// Makes the group run this operator: `counts` has the number of tensors of each tensor argument,
// `places` where they are, see NodeKernel. Returns 0, or non-zero for an unknown operator.
int32_t pto_onnxruntime_use(void* answer, int32_t index, const int32_t* counts,
                            const int32_t* places, const pto_operator_value* attributes,
                            const int32_t* outputs, int32_t n_outputs) {
  const pto_operator* op = pto_operator_at(index);
  if (!op) return 1;
  auto kernel = std::make_unique<NodeKernel>(*op);
  for (int32_t i = 0; i < op->n_tensors; places += counts[i++]) {
    kernel->inputs.push_back({{places, places + counts[i]}});
  }
  kernel->may_lack_inputs = false;  // the model has these inputs
  kernel->outputs.assign(outputs, outputs + n_outputs);
  for (int32_t i = 0; i < op->n_arguments; ++i) {
    const pto_operator_argument& argument = op->arguments[i];
    if (!pto::is_tensor(argument)) kernel->attributes.add(*attributes++, argument.kind);
  }
  static_cast<Compiled*>(answer)->kernel = std::move(kernel);
  return 0;
}

// Replaces a tensor argument of the group's operator, a constant of the model, by what the operator
// `index` makes of it. Returns null, or the text of the failure.
const char* pto_onnxruntime_prepare(void* answer, int32_t argument, int32_t index,
                                    const pto_operator_value* attributes) {
  auto& compiled = *static_cast<Compiled*>(answer);
  try {
    Places& input = compiled.kernel->inputs.at(static_cast<size_t>(argument));
    const auto place = static_cast<size_t>(input.places.at(0));
    const pto_tensor_ref constant = constant_at(compiled.graph, compiled.fused, place);
    input.prepared =
        std::make_unique<const Prepared>(*pto_operator_at(index), constant, attributes);
    return nullptr;
  } catch (const std::exception& error) {
    planner_error = error.what();
    return planner_error.c_str();
  }
}

}  // extern "C"
