// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/operator_providers.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sstream>

#include "pto/base/machine.hpp"
#include "pto/base/sha256.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/progress.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/compiler/compile.hpp"
#include "pto/compiler/target.hpp"
#include "pto/launch/sealed.hpp"
#include "pto/operators/native.hpp"
#include "pto/operators/operator.hpp"

namespace nb = nanobind;

namespace pto::bindings {
namespace {

OperatorCallbacks* callbacks = nullptr;  // as long as the process

struct Described {
  DType dtype;
  Dims shape;
};

// Converts the tensors of a call to Python, argument by argument.
nb::list tensor_list(const Schema& schema, std::span<const int32_t> counts,
                     const std::vector<Described>& given) {
  nb::list tensors;
  size_t next = 0, place = 0;
  for (const Argument& argument : schema.arguments) {
    if (!is_tensor(argument)) continue;
    nb::list here;
    for (int32_t n = counts[place++]; n > 0; --n, ++next) {
      here.append(
          nb::make_tuple(std::string(name(given[next].dtype)), tuple_from(given[next].shape)));
    }
    if (argument.kind == ArgumentKind::TensorList) {
      tensors.append(here);
    } else {
      tensors.append(nb::len(here) ? nb::object(here[0]) : nb::none());
    }
  }
  return tensors;
}

// Converts the attributes; SymInt ones are symbols from `next` on, and absent ones may count too.
nb::list attribute_list(const Schema& schema, std::span<const AttributeValue> attributes,
                        const std::function<Dim(bool given)>& symint) {
  nb::list values;
  size_t next = 0;
  for (const Argument& argument : schema.arguments) {
    if (is_tensor(argument)) continue;
    const AttributeValue& value = attributes[next++];
    const bool given = !std::holds_alternative<std::monostate>(value);
    if (argument.kind != ArgumentKind::SymInt) {
      values.append(attribute_object(value));
      continue;
    }
    const Dim size = symint(given);
    if (!given) {
      values.append(nb::none());
    } else {
      values.append(size.is_constant() ? nb::object(nb::int_(size.value())) : nb::cast(size));
    }
  }
  return values;
}

// Converts an error of pto/errors.py to its C++ form, any other one to its text.
Error error_from_python(const nb::python_error& error) {
  const nb::handle value = error.value();
  const auto text = [&](const char* name) { return nb::cast<std::string>(value.attr(name)); };
  const nb::module_ errors = nb::module_::import_("pto.errors");
  if (!nb::isinstance(value, errors.attr("Error"))) {
    return Error({nb::str(value).c_str(), "", ""}, ErrorKind::Runtime);
  }
  const nb::object kinds = errors.attr("BY_KIND");
  int kind = static_cast<int>(ErrorKind::Runtime);
  for (size_t i = 0; i < nb::len(kinds); ++i)  // the last one is two others
    if (nb::isinstance(value, kinds[i])) kind = static_cast<int>(i);
  const Error found({text("what"), text("why"), text("fix")}, static_cast<ErrorKind>(kind));
  const std::string location = text("location");
  return location.empty() ? found : found.at(location);
}

// Runs a function with Python's lock; a Python error becomes a C++ exception with its text.
template <class F>
auto in_python(F f) {
  if (python_has_ended()) {
    fail({"a kernel was asked for after Python ended", "kernels are traced in Python",
          "call the operator once before the end"},
         ErrorKind::Runtime);
  }
  const Locked locked;
  try {
    return f();
  } catch (nb::python_error& error) {
    throw error_from_python(error);
  }
}

Graph traced_graph(const KernelRequest& request) {
  const Schema& schema = operator_at(request.op).schema;
  int next_symbol = 0;
  uint32_t next_word = 0;
  std::vector<Described> given;
  for (const int32_t count : request.counts) {
    for (int32_t n = 0; n < count; ++n) {
      const TensorClass kind = tensor_class(request.signature.words[next_word++]);
      given.push_back({kind.dtype, kind.symbolic_shape(&next_symbol)});
    }
  }
  const auto symint = [&](bool is_given) -> Dim {
    if (!is_given) return 0;
    return tensor_class(request.signature.words[next_word++]).symbolic_shape(&next_symbol)[0];
  };
  return nb::cast<Graph>(callbacks->trace(request.op, tensor_list(schema, request.counts, given),
                                          attribute_list(schema, request.attributes, symint)));
}

// Stops the compiler on Ctrl-C, which stays pending for the interpreter: the error itself travels
// through the framework as text.
bool interrupted(Progress* progress) {
  if (python_has_ended()) return false;
  const Locked locked;
  progress->tick();
  if (PyErr_CheckSignals() == 0) return false;
  PyErr_Clear();
  PyErr_SetInterrupt();
  return true;
}

std::string text_of(const AttributeValue& value) {
  std::ostringstream text;
  text << value.index() << ':' << std::hexfloat;
  if (const auto* i = std::get_if<int64_t>(&value)) text << *i;
  if (const auto* d = std::get_if<double>(&value)) text << *d;
  if (const auto* b = std::get_if<bool>(&value)) text << *b;
  if (const auto* s = std::get_if<std::string>(&value)) text << s->size() << *s;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    for (int64_t one : *list) text << one << ',';
  return text.str();
}

// Names a traced kernel among those that are built ahead, its target apart.
std::string key_of(const KernelRequest& request) {
  std::ostringstream key;
  key << operator_at(request.op).schema.name;
  for (const int32_t count : request.counts) key << ' ' << count;
  for (uint32_t i = 0; i < request.signature.count; ++i)
    key << (i == 0 ? " / " : " ") << request.signature.words[i];
  for (const AttributeValue& value : request.attributes) key << " " << text_of(value);
  return key.str();
}

std::string with_target(const std::string& key, Target target) {
  return key + " " + std::string(name(target));
}

// Returns the code that was built ahead for the target of what compiles now; "" without one.
std::string built_ahead(const std::string& key) {
  return in_python([&]() -> std::string {
    const nb::object found = callbacks->find(with_target(key, target_now()));
    if (found.is_none()) return "";
    const auto bytes = nb::cast<nb::bytes>(found);
    return {bytes.c_str(), bytes.size()};
  });
}

// Gives the code for each target to `keep`, while Python wants it.
template <class Make>
void keep_code(const std::string& key, const Make& make) {
  if (callbacks->keep.is_none()) return;
  for (const std::string& target : callbacks->targets) {
    const std::string code = make(target);
    in_python([&] {
      if (code.empty() || callbacks->keep.is_none()) return;
      callbacks->keep(with_target(key, named_target(target)), nb::bytes(code.data(), code.size()));
    });
  }
}

std::shared_ptr<const Program> traced_kernel(const KernelRequest& request) {
  const std::string key = key_of(request);
  if (const std::string code = built_ahead(key); !code.empty()) {
    const char* rest = code.data();
    return load_program(unseal("the library of kernels", &rest, rest + code.size()));
  }
  const Graph graph = in_python([&] { return traced_graph(request); });
  CompileOptions options;
  for (uint32_t i = 0; i < request.signature.count; ++i) {
    options.strides.push_back(tensor_class(request.signature.words[i]).strides);
  }
  Progress progress;
  options.interrupted = [&progress] { return interrupted(&progress); };
  keep_code(key, [&](const std::string& target) {
    CompileOptions own = options;
    own.target = target;
    return seal(compile_sealed(graph, own));
  });
  return compile_or_interpret(graph, options);
}

std::shared_ptr<const Program> native_kernel(const KernelRequest& request) {
  const InferredShapes shapes = infer_shapes_for(request);
  const auto [name, text, function] = in_python([&] {
    nb::list dtypes;  // of each tensor argument: that of its first tensor, or None
    uint32_t word = 0;
    for (const int32_t count : request.counts) {
      if (count == 0) {
        dtypes.append(nb::none());
      } else {
        dtypes.append(std::string(pto::name(tensor_class(request.signature.words[word]).dtype)));
      }
      word += static_cast<uint32_t>(count);
    }
    nb::object source = callbacks->source(request.op, dtypes);
    return std::make_tuple(nb::cast<std::string>(source[0]), nb::cast<std::string>(source[1]),
                           nb::cast<std::string>(source[2]));
  });
  CompileOptions options;
  Progress progress;
  options.interrupted = [&progress] { return interrupted(&progress); };
  const std::string key = "text " + hex(Sha256().field(text).field(function).digest());
  const std::string code = built_ahead(key);
  keep_code(key, [&](const std::string& target) {
    CompileOptions own = options;
    own.target = target;
    ProgramSpec spec;
    spec.name = name;
    spec.launches.push_back({function, {}, {}, {}});
    return compile_sealed(std::move(spec), text, own).object;
  });
  CompiledText compiled = code.empty() ? compile_text(name, text, {function}, options)
                                       : load_text(name, code, {function});
  auto library = std::const_pointer_cast<Library>(compiled.library);
  return native_program(request, shapes, compiled.functions[0], std::move(library));
}

InferredShapes::Tensor tensor_from(nb::handle described) {
  return {dtype_from(nb::cast<std::string>(nb::str(described[0]))), dims_from(described[1])};
}

InferredShapes inferred(const ShapeRequest& request) {
  const Schema& schema = operator_at(request.op).schema;
  int next_symbol = 0;
  std::vector<Described> given;
  for (const TensorKind& kind : request.tensors) {
    Described& one = given.emplace_back(Described{kind.dtype, {}});
    for (int axis = 0; axis < kind.rank; ++axis) one.shape.push_back(Dim::symbol(next_symbol++));
  }
  const auto symint = [&](bool) { return Dim::symbol(next_symbol++); };
  nb::object result = callbacks->infer(request.op, tensor_list(schema, request.counts, given),
                                       attribute_list(schema, request.attributes, symint));
  InferredShapes shapes;
  for (nb::handle output : result[0]) {
    if (!nb::isinstance<nb::list>(output)) {
      shapes.counts.push_back(1);
      shapes.tensors.push_back(tensor_from(output));
      continue;
    }
    shapes.counts.push_back(static_cast<int32_t>(nb::len(output)));
    for (nb::handle member : output) shapes.tensors.push_back(tensor_from(member));
  }
  for (nb::handle guard : result[1]) {
    shapes.guards.push_back({dim_from(guard[0]), dim_from(guard[1]),
                             nb::cast<std::string>(guard[2]),
                             static_cast<GuardKind>(nb::cast<int>(guard[3]))});
  }
  if (nb::len(result) > 2) {  // the work of a hand-written kernel
    shapes.items = dim_from(result[2]);
    shapes.bytes = dim_from(result[3]);
  }
  return shapes;
}

InferredShapes python_shapes(const ShapeRequest& request) {
  return in_python([&] { return inferred(request); });
}

}  // namespace

void set_operator_callbacks(OperatorCallbacks given) {
  if (!callbacks) callbacks = new OperatorCallbacks;
  *callbacks = std::move(given);
}

nb::object trace_operator(int index, nb::list tensors, nb::list attributes) {
  PTO_ASSERT(callbacks != nullptr);
  return callbacks->trace(index, tensors, attributes);
}

void keep_kernels(nb::object keep, std::vector<std::string> targets) {
  PTO_ASSERT(callbacks != nullptr);
  callbacks->keep = std::move(keep);
  callbacks->targets = std::move(targets);
}

Providers traced_providers() { return {traced_kernel, python_shapes}; }
Providers native_providers() { return {native_kernel, python_shapes}; }

nb::object attribute_object(const AttributeValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return nb::int_(*i);
  if (const auto* d = std::get_if<double>(&value)) return nb::float_(*d);
  if (const auto* b = std::get_if<bool>(&value)) return nb::bool_(*b);
  if (const auto* s = std::get_if<std::string>(&value)) return nb::str(s->c_str(), s->size());
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return nb::cast(*list);
  return nb::none();
}

}  // namespace pto::bindings
