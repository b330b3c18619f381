// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/describe.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>
#include <string_view>

#include "pto/adapters/onnxruntime/kernel.hpp"
#include "pto/adapters/onnxruntime/status.hpp"

namespace pto::ort {
namespace {

constexpr int64_t kDataBytesMax = 1024;

template <class Handle, class Count, class Get>
std::vector<const Handle*> all(Count count, Get get) {
  size_t n = 0;
  check(count(&n));
  std::vector<const Handle*> handles(n);
  if (n > 0) check(get(handles.data(), n));
  return handles;
}

template <class Function, class... A>
auto text(const Function& function, A... arguments) {
  const char* found = nullptr;
  check(function(arguments..., &found));
  return std::string_view(found ? found : "");
}

class JsonWriter {
 public:
  std::string take() { return std::move(out_); }

  void raw(std::string_view piece) { out_ += piece; }

  void quoted(std::string_view value) {
    out_ += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') out_ += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) {
        out_ += c;
      } else {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
        out_ += escaped;
      }
    }
    out_ += '"';
  }

  void key(std::string_view name) {
    quoted(name);
    out_ += ':';
  }

  void number(int64_t value) { out_ += std::to_string(value); }

  void number(float value) {
    if (!std::isfinite(value)) {
      out_ += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
      return;
    }
    char digits[32];  // the shortest that stand for it, as in attributes.cpp
    *std::to_chars(digits, std::end(digits) - 1, value).ptr = '\0';
    out_ += digits;
    if (std::string_view(digits).find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }

  // Writes [item, item ...]; `write` writes one item.
  template <class Items, class Write>
  void list(const Items& items, Write write) {
    out_ += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ',';
      first = false;
      write(item);
    }
    out_ += ']';
  }

 private:
  std::string out_;
};

class Description {
 public:
  std::string graph(const Graph* graph, const Node* fused) {
    const Node* parent = nullptr;
    check(api::Graph_GetParentNode(graph, &parent));
    json_.raw("{\"parent\":");
    json_.quoted(parent ? text(api::Node_GetOperatorType, parent) : "");
    json_.raw(",");
    json_.key("nodes");
    json_.list(nodes_of(graph), [&](const Node* node) { this->node(node); });
    if (fused) {
      json_.raw(",");
      names("inputs", inputs_of(fused));
      json_.raw(",");
      names("outputs", outputs(fused));
    }
    json_.raw(",");
    json_.key("values");
    json_.raw("{");
    write_values();
    json_.raw("}}");
    return json_.take();
  }

 private:
  using Values = std::vector<const ValueInfo*>;

  static Values outer(const Node* node) {
    return all<ValueInfo>(
        [&](size_t* n) { return api::Node_GetNumImplicitInputs(node, n); },
        [&](const ValueInfo** v, size_t n) { return api::Node_GetImplicitInputs(node, v, n); });
  }
  static Values outputs(const Node* node) {
    return all<ValueInfo>(
        [&](size_t* n) { return api::Node_GetNumOutputs(node, n); },
        [&](const ValueInfo** v, size_t n) { return api::Node_GetOutputs(node, v, n); });
  }

  void names(std::string_view key, const Values& values) {
    json_.key(key);
    json_.list(values, [&](const ValueInfo* value) {
      json_.quoted(name_of(value));
      if (value) seen_.push_back(value);
    });
  }

  void node(const Node* node) {
    int since = 0;
    check(api::Node_GetSinceVersion(node, &since));
    json_.raw("{");
    json_.key("name");
    json_.quoted(text(api::Node_GetName, node));
    json_.raw(",\"type\":");
    json_.quoted(text(api::Node_GetOperatorType, node));
    json_.raw(",\"domain\":");
    json_.quoted(text(api::Node_GetDomain, node));
    json_.raw(",\"provider\":");
    json_.quoted(text(api::Node_GetEpName, node));
    json_.raw(",\"since\":");
    json_.number(static_cast<int64_t>(since));
    json_.raw(",");
    names("inputs", inputs_of(node));
    json_.raw(",");
    names("outer", outer(node));
    json_.raw(",");
    names("outputs", outputs(node));
    json_.raw(",");
    attributes(node);
    json_.raw("}");
  }

  void attributes(const Node* node) {
    const auto found = all<Attribute>(
        [&](size_t* n) { return api::Node_GetNumAttributes(node, n); },
        [&](const Attribute** v, size_t n) { return api::Node_GetAttributes(node, v, n); });
    json_.key("attributes");
    json_.raw("{");
    for (size_t i = 0; i < found.size(); ++i) {
      if (i > 0) json_.raw(",");
      json_.key(text(api::OpAttr_GetName, found[i]));
      attribute(found[i]);
    }
    json_.raw("}");
  }

  void attribute(const Attribute* attribute) {
    int type = 0;
    check(api::OpAttr_GetType(attribute, &type));
    switch (type) {
      case kInt:
        return json_.number(elements<int64_t>(attribute, type).at(0));
      case kFloat:
        return json_.number(elements<float>(attribute, type).at(0));
      case kInts:
        return json_.list(elements<int64_t>(attribute, type), [&](int64_t v) { json_.number(v); });
      case kFloats:
        return json_.list(elements<float>(attribute, type), [&](float v) { json_.number(v); });
      case kString: {
        const std::vector<char> characters = elements<char>(attribute, type);
        return json_.quoted({characters.data(), characters.size()});
      }
      default:  // texts, tensors, graphs: nothing that we take has one
        return json_.raw("null");
    }
  }

  template <class T>
  static std::vector<T> elements(const Attribute* attribute, int type) {
    size_t bytes = 0;
    succeeded(api::ReadOpAttr(attribute, type, nullptr, 0, &bytes));  // fails, and says the size
    std::vector<T> found(bytes / sizeof(T));
    if (bytes > 0) check(api::ReadOpAttr(attribute, type, found.data(), bytes, &bytes));
    return found;
  }

  void write_values() {
    std::set<std::string_view> written;
    for (const ValueInfo* value : seen_) {
      const std::string_view name = name_of(value);
      if (name.empty() || !written.insert(name).second) continue;
      if (written.size() > 1) json_.raw(",");
      json_.key(name);
      this->value(value);
    }
  }

  void value(const ValueInfo* value) {
    bool is_output = false, is_constant = false;
    check(api::ValueInfo_IsGraphOutput(value, &is_output));
    check(api::ValueInfo_IsConstantInitializer(value, &is_constant));
    json_.raw("{\"output\":");
    json_.raw(is_output ? "true" : "false");
    json_.raw(",\"constant\":");
    json_.raw(is_constant ? "true" : "false");
    type(value);
    if (is_constant) data(value);
    json_.raw("}");
  }

  void type(const ValueInfo* value) {
    const TypeInfo* type = nullptr;
    const TensorInfo* tensor = nullptr;
    int kind = 0, element = 0;
    if (!succeeded(api::GetValueInfoTypeInfo(value, &type)) || !type) return;
    check(api::GetOnnxTypeFromTypeInfo(type, &kind));
    if (kind != kTensorType) return;
    check(api::CastTypeInfoToTensorInfo(type, &tensor));
    if (!tensor) return;
    check(api::GetTensorElementType(tensor, &element));
    if (const int dtype = dtype_of(element); dtype >= 0) {
      json_.raw(",\"dtype\":");
      json_.quoted(name(static_cast<DType>(dtype)));
    }
    if (api::TensorTypeAndShape_HasShape(tensor)) shape(tensor);
  }

  void shape(const TensorInfo* tensor) {
    size_t rank = 0;
    check(api::GetDimensionsCount(tensor, &rank));
    std::vector<int64_t> sizes(rank);
    std::vector<const char*> symbols(rank, nullptr);
    if (rank > 0) check(api::GetDimensions(tensor, sizes.data(), rank));
    if (rank > 0) check(api::GetSymbolicDimensions(tensor, symbols.data(), rank));
    json_.raw(",\"shape\":");
    size_t axis = 0;
    json_.list(sizes, [&](int64_t size) {
      const char* symbol = symbols[axis++];
      if (size >= 0) return json_.number(size);
      symbol&&* symbol ? json_.quoted(symbol) : json_.raw("null");
    });
  }

  void data(const ValueInfo* value) {
    const Value* tensor = nullptr;
    int element = 0;
    const int64_t* sizes = nullptr;
    size_t rank = 0;
    const void* found = nullptr;
    if (!succeeded(api::ValueInfo_GetInitializerValue(value, &tensor)) || !tensor) return;
    check(api::GetTensorElementTypeAndShapeDataReference(tensor, &element, &sizes, &rank));
    if (dtype_of(element) < 0) return;
    int64_t bytes = pto::bytes(static_cast<DType>(dtype_of(element)));
    for (size_t axis = 0; axis < rank; ++axis) bytes *= sizes[axis];
    if (bytes > kDataBytesMax) return;
    check(api::GetTensorData(tensor, &found));
    json_.raw(",\"data\":\"");
    for (int64_t i = 0; i < bytes; ++i) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<const uint8_t*>(found)[i]);
      json_.raw(digits);
    }
    json_.raw("\"");
  }

  JsonWriter json_;
  Values seen_;
};

}  // namespace

std::vector<const Node*> nodes_of(const Graph* graph) {
  return all<Node>([&](size_t* n) { return api::Graph_GetNumNodes(graph, n); },
                   [&](const Node** v, size_t n) { return api::Graph_GetNodes(graph, v, n); });
}

std::vector<const ValueInfo*> inputs_of(const Node* node) {
  return all<ValueInfo>(
      [&](size_t* n) { return api::Node_GetNumInputs(node, n); },
      [&](const ValueInfo** v, size_t n) { return api::Node_GetInputs(node, v, n); });
}

std::string_view name_of(const ValueInfo* value) {
  return value ? text(api::GetValueInfoName, value) : "";
}

std::string describe(const Graph* graph, const Node* fused) {
  return Description().graph(graph, fused);
}

}  // namespace pto::ort
