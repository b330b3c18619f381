// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/fast_call.hpp"

#include <algorithm>
#include <optional>

#include "pto/bindings/constants.hpp"
#include "pto/bindings/extent.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/results.hpp"

namespace nb = nanobind;

namespace pto::bindings {
namespace {

constexpr int64_t kKeepLockBytes = 64 << 10;  // below this much work Python's lock is kept

// Marks that this thread traces a function; `again` where it already does.
struct Specialising {
  explicit Specialising(std::vector<unsigned long>* threads) : threads(threads) {
    unsigned long self = PyThread_get_thread_ident();
    again = std::find(threads->begin(), threads->end(), self) != threads->end();
    threads->push_back(self);
  }
  ~Specialising() {
    unsigned long self = PyThread_get_thread_ident();
    threads->erase(std::find(threads->begin(), threads->end(), self));
  }
  std::vector<unsigned long>* threads;
  bool again;
};

}  // namespace

HostExecutor& torch_executor() {
  static HostExecutor executor;
  return executor;
}

FastCall::FastCall(PyObject* self, PyObject* name, PyObject* parameters, PyObject* defaults,
                   PyObject* policy)
    : self_(self),
      name_(Py_NewRef(name)),
      parameters_(Py_NewRef(parameters)),
      defaults_(Py_NewRef(defaults)),
      policy_(Py_NewRef(policy)),
      parameter_count_(PyTuple_GET_SIZE(parameters)),
      first_default_(parameter_count_ - PyTuple_GET_SIZE(defaults)),
      takes_out_(true),
      owner_(kernel_table().new_owner(PyUnicode_AsUTF8(name))) {
  for (Py_ssize_t i = 0; i < parameter_count_; ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(parameters, i), "out") == 0)
      takes_out_ = false;
}

FastCall::~FastCall() {
  kernel_table().erase_owner(owner_);
  for (auto& row : constants_)
    for (PyObject* constant : row) Py_XDECREF(constant);
  Py_DECREF(name_), Py_DECREF(parameters_), Py_DECREF(defaults_), Py_DECREF(policy_);
}

int FastCall::visit(visitproc visit, void* arg) const {
  Py_VISIT(policy_);
  Py_VISIT(defaults_);
  return captures_.visit(visit, arg);
}

void FastCall::mismatch(PyObject* const* args, Py_ssize_t count, PyObject* keywords) const {
  Ref positional = checked(PyTuple_New(count)), named = checked(PyDict_New());
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_GET_SIZE(keywords); ++i)
    PyDict_SetItem(named.get(), PyTuple_GET_ITEM(keywords, i), args[count + i]);
  Ref none = checked(
      PyObject_CallMethod(policy_, "mismatch", "OOO", self_, positional.get(), named.get()));
  PyErr_Format(PyExc_TypeError, "%U: the arguments do not fit the parameters", name_);
  throw PythonError{};
}

void FastCall::bind_keyword(PyObject* name, PyObject* value, Bound* bound) const {
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    PyObject* parameter = PyTuple_GET_ITEM(parameters_, i);
    if (parameter != name && PyUnicode_Compare(parameter, name) != 0) continue;
    if (bound->slots[i] != nullptr) break;
    bound->slots[i] = value;
    return;
  }
  if (!takes_out_ || PyUnicode_CompareWithASCIIString(name, "out") != 0) throw KeyMismatch{};
  bound->out = value == Py_None ? nullptr : value;
}

void FastCall::bind(PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                    Bound* bound) const {
  try {
    if (count > parameter_count_) throw KeyMismatch{};
    for (Py_ssize_t i = 0; i < parameter_count_; ++i)
      bound->slots[i] = i < count ? args[i] : nullptr;
    for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_GET_SIZE(keywords); ++i)
      bind_keyword(PyTuple_GET_ITEM(keywords, i), args[count + i], bound);
    for (Py_ssize_t i = count; i < parameter_count_; ++i) {
      if (bound->slots[i] != nullptr) continue;
      if (i < first_default_) throw KeyMismatch{};
      bound->slots[i] = PyTuple_GET_ITEM(defaults_, i - first_default_);
      if (bound->slots[i] == Py_Ellipsis) throw KeyMismatch{};  // keyword-only without a default
    }
  } catch (const KeyMismatch&) {
    mismatch(args, count, keywords);
  }
}

// Reads the tensors and sets the constants aside.
void FastCall::sort(ArgumentReader* reader, Bound* bound) const {
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    PyObject* value = bound->slots[i];
    PyObject* name = PyTuple_GET_ITEM(parameters_, i);
    TypeRecord record = reader->record(value);
    bound->constants[i] = nullptr;
    if (record.kind == Kind::Constant) {
      bound->constants[i] = value;
      bound->has_constants = true;
    } else if (record.kind == Kind::Traced) {
      bound->traced = true;
    } else if (record.kind == Kind::Unknown) {
      reader->refuse(name, value, "kind");
    } else {
      reader->read(value, name, record);
    }
  }
  if (!bound->traced && reader->tensors().empty()) reader->refuse(name_, Py_None, "no tensor");
}

// Before a constant is hashed or compared, which take the stack of its depth.
void FastCall::check_constant(const ArgumentReader& reader, PyObject* name, PyObject* value,
                              int depth) const {
  if (value == nullptr || !PyTuple_CheckExact(value)) return;
  if (depth == kMaxConstantDepth) reader.refuse(name, value, "depth");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    PyObject* item = PyTuple_GET_ITEM(value, i);
    if (reader.record(item).kind != Kind::Constant) reader.refuse(name, item, "kind");
    check_constant(reader, name, item, depth + 1);
  }
}

uint64_t FastCall::constants_key(const ArgumentReader& reader, const Bound& bound) {
  if (!bound.has_constants) return 0;
  auto count = static_cast<size_t>(parameter_count_);
  auto same = [&](uint64_t key) {
    return same_constants(constants_[key - 1].data(), bound.constants, count);
  };
  if (last_constants_ != 0 && same(last_constants_)) return last_constants_;
  for (Py_ssize_t i = 0; i < parameter_count_; ++i)
    check_constant(reader, PyTuple_GET_ITEM(parameters_, i), bound.constants[i]);
  size_t hash = hash_constants(bound.constants, count);
  auto [begin, end] = constant_keys_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (same(it->second)) return last_constants_ = it->second;
  constants_.emplace_back(bound.constants, bound.constants + count);
  for (PyObject* constant : constants_.back()) Py_XINCREF(constant);
  constant_keys_.emplace(hash, constants_.size());
  return last_constants_ = constants_.size();
}

Ref FastCall::described(const Signature& signature, const Bound& bound) const {
  Ref tensors = checked(PyList_New(0)), constants = checked(PyList_New(0));
  int next_symbol = 0;
  uint32_t next_tensor = 0;
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    PyObject* constant = bound.constants[i];
    nb::object tensor = nb::none();
    if (constant == nullptr) {
      TensorClass about = tensor_class(signature.words[next_tensor++]);
      tensor = nb::make_tuple(nb::str(std::string(name(about.dtype)).c_str()),
                              tuple_from(about.symbolic_shape(&next_symbol)),
                              static_cast<int>(about.strides));
    }
    if (PyList_Append(tensors.get(), tensor.ptr()) != 0 ||
        PyList_Append(constants.get(), constant != nullptr ? constant : Py_None) != 0)
      throw PythonError{};
  }
  return checked(PyTuple_Pack(2, tensors.get(), constants.get()));
}

std::shared_ptr<const Program> FastCall::specialise(const Signature& signature,
                                                    const Bound& bound) {
  nb::gil_scoped_acquire locked;
  Ref about = described(signature, bound);
  Ref method = checked(PyObject_GetAttrString(self_, "specialise"));
  Ref made = checked(PyObject_CallObject(method.get(), about.get()));
  if (!PyTuple_Check(made.get()) || PyTuple_GET_SIZE(made.get()) != 2) {
    PyErr_SetString(PyExc_TypeError, "specialise() must return (program, single)");
    throw PythonError{};
  }
  auto program = program_from(PyTuple_GET_ITEM(made.get(), 0));
  single_[program.get()] = PyTuple_GET_ITEM(made.get(), 1) == Py_True;
  return program;
}

// Which places are captured is asked where there is no kernel: at first, and where one changed.
FastCall::Found FastCall::find(Signature* found, const Bound& bound) {
  Signature& signature = *found;
  if (last_.entry != nullptr && last_.entry->signature == signature) return last_;
  const KernelTable::Entry* entry = kernel_table().find(owner_, signature);
  if (entry == nullptr && captures_.refresh(self_)) {
    signature.attributes = attributes_key(static_cast<uint32_t>(signature.attributes));
    entry = kernel_table().find(owner_, signature);
  }
  if (entry == nullptr) {
    Specialising here(&specialising_);
    if (here.again) ArgumentReader(policy_, name_).refuse(name_, Py_None, "recursion");
    std::optional<nb::python_error> raised;
    try {
      Unlocked unlocked;
      entry = &kernel_table().entry(owner_, signature, [&]() -> std::shared_ptr<const Program> {
        try {
          return specialise(signature, bound);
        } catch (const PythonError&) {
          nb::gil_scoped_acquire locked;
          raised.emplace();  // takes the error along: it belongs to this thread's state
          throw;
        }
      });
    } catch (const PythonError&) {
      raised->restore();
      throw;
    }
  }
  return last_ = {entry, single_.at(entry->program.get())};
}

void FastCall::execute(Call* call, const ArgumentReader& reader,
                       std::span<void* const> outputs) const {
  int64_t work = 0;
  for (const TensorArgument& tensor : reader.tensors())
    work += elements(tensor) * bytes(tensor.dtype);
  for (size_t i = 0; i < outputs.size(); ++i) work += call->output_bytes(static_cast<int>(i));
  if (work <= kKeepLockBytes) return call->run(outputs);
  Unlocked unlocked;
  const HostExecutor& host = torch_executor();
  if (reader.origin().kind != Kind::Torch || host.threads == nullptr) return call->run(outputs);
  ScopedThreadLimit limit(host.threads());
  if (host.run == nullptr) return call->run(outputs);
  ScopedExecutor executor(host.run, nullptr);
  call->run(outputs);
}

PyObject* FastCall::run_into(Call* call, const Program& program, bool single,
                             const ArgumentReader& reader, PyObject* out) {
  ArgumentReader outputs(policy_, name_);
  Ref label = checked(PyUnicode_InternFromString("out"));
  Ref all = single ? checked(PyTuple_Pack(1, out)) : checked(PySequence_Tuple(out));
  size_t count = program.spec().outputs.size();
  if (static_cast<size_t>(PyTuple_GET_SIZE(all.get())) != count)
    reader.refuse(label.get(), out, "out count", std::to_string(count).c_str());
  void* pointers[Program::kMaxTensors];
  for (size_t i = 0; i < count; ++i) {
    PyObject* target = PyTuple_GET_ITEM(all.get(), static_cast<Py_ssize_t>(i));
    TypeRecord record = outputs.record(target);
    if (record.kind != reader.origin().kind || record.api != reader.origin().api)
      reader.refuse(label.get(), target, "mixed libraries", Py_TYPE(reader.first())->tp_name);
    outputs.read(target, label.get(), record, true);
    const TensorArgument& tensor = outputs.tensors()[i];
    auto sizes = call->output_sizes(static_cast<int>(i));
    DType dtype = program.spec().outputs[i].dtype;
    std::string wanted = std::string(name(dtype)) + text(Dims(sizes.begin(), sizes.end()));
    bool fits = tensor.dtype == dtype && static_cast<size_t>(tensor.rank) == sizes.size() &&
                std::equal(sizes.begin(), sizes.end(), tensor.sizes);
    if (!fits) reader.refuse(label.get(), target, "out type", wanted.c_str());
    if (stride_class(tensor.sizes, tensor.strides, tensor.rank) != StrideClass::Contiguous)
      reader.refuse(label.get(), target, "out strides");
    for (const TensorArgument& input : reader.tensors())
      if (overlap(extent(tensor), extent(input))) reader.refuse(label.get(), target, "out overlap");
    for (size_t j = 0; j < i; ++j)
      if (overlap(extent(tensor), extent(outputs.tensors()[j])))
        reader.refuse(label.get(), target, "out overlap");
    pointers[i] = tensor.data;
  }
  execute(call, reader, {pointers, count});
  return Py_NewRef(out);
}

PyObject* FastCall::run(const Program& program, bool single, const ArgumentReader& reader,
                        PyObject* out) {
  Call call(program, reader.tensors(), {});
  if (out != nullptr) return run_into(&call, program, single, reader, out);
  Results results(reader, policy_);
  void* pointers[Program::kMaxTensors];
  const auto& outputs = program.spec().outputs;
  const auto count = static_cast<int>(outputs.size());
  for (int i = 0; i < count; ++i) {
    pointers[i] = results.add(outputs[static_cast<size_t>(i)].dtype, call.output_sizes(i));
    if (pointers[i] == nullptr) fail_memory(program.spec().name.c_str(), i, call.output_bytes(i));
  }
  execute(&call, reader, {pointers, outputs.size()});
  if (single) return results.array(0).release();
  Ref all = checked(PyTuple_New(count));
  for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(all.get(), i, results.array(i).release());
  return all.release();
}

PyObject* FastCall::call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  Bound bound;
  bind(args, count, keywords, &bound);
  ArgumentReader reader(policy_, name_);
  sort(&reader, &bound);
  if (bound.traced) {
    Ref inner = checked(PyObject_GetAttrString(self_, "__wrapped__"));
    return PyObject_Vectorcall(inner.get(), args, static_cast<size_t>(count), keywords);
  }
  Signature signature;
  for (const TensorArgument& tensor : reader.tensors()) signature.add(tensor);
  signature.attributes = attributes_key(constants_key(reader, bound));
  Found found = find(&signature, bound);
  return run(*found.entry->program, found.single, reader, bound.out);
}

PyObject* FastCall::describe(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  Bound bound;
  bind(args, count, keywords, &bound);
  ArgumentReader reader(policy_, name_);
  sort(&reader, &bound);
  if (bound.traced) reader.refuse(name_, Py_None, "kind");
  Signature signature;
  for (const TensorArgument& tensor : reader.tensors()) signature.add(tensor);
  for (Py_ssize_t i = 0; i < parameter_count_; ++i)
    check_constant(reader, PyTuple_GET_ITEM(parameters_, i), bound.constants[i]);
  return described(signature, bound).release();
}

}  // namespace pto::bindings
