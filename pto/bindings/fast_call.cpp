// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/fast_call.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/base/strided.hpp"
#include "pto/bindings/constants.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/results.hpp"
#include "pto/launch/strided_copy.hpp"

namespace nb = nanobind;

namespace pto::bindings {
namespace {

constexpr int64_t kKeepLockBytes = 64 << 10;  // for less work Python's lock is kept

// Marks that this thread traces a function; `again` if it already does.
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
  for (auto& [program, form] : forms_) Py_DECREF(form);
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

// Puts `key` into the key and passes `value` to the function; both are borrowed.
void FastCall::add_constant(Py_ssize_t place, PyObject* key, PyObject* value, Bound* bound) const {
  bound->constants[place] = key;
  bound->values[place] = value;
  if (PyFloat_CheckExact(value) && (steering_ >> place & 1) == 0) {
    bound->constants[place] = reinterpret_cast<PyObject*>(&PyFloat_Type);
    bound->numbers[place] = PyFloat_AS_DOUBLE(value);
    bound->is_number |= uint32_t{1} << place;
  }
  bound->has_constants = true;
}

void FastCall::sort_one(Py_ssize_t place, TypeRecord record, ArgumentReader* reader,
                        Bound* bound) const {
  PyObject* value = bound->slots[place];
  PyObject* name = PyTuple_GET_ITEM(parameters_, place);
  switch (record.kind) {
    case Kind::Constant:
      return add_constant(place, value, value, bound);
    case Kind::Traced:
      bound->traced = true;
      return;
    case Kind::Structure:
      bound->made.push_back(
          checked(PyObject_CallMethod(policy_, "key", "OOO", name_, name, value)));
      return add_constant(place, bound->made.back().get(), value, bound);
    case Kind::Library:
      throw ForLibrary{};
    case Kind::Unknown:
      reader->refuse(name, value, "kind");
    case Kind::Torch:
      if (const auto is_plain = torch_executor().is_plain;
          reader->tensors().empty() && is_plain != nullptr && is_plain() == 0)
        throw ForLibrary{};
      [[fallthrough]];
    default:
      reader->read(value, name, record);
  }
}

// Takes NumPy numbers as constants beside arrays, and as arrays of rank 0 if there are no arrays.
void FastCall::take_numpy_numbers(uint32_t places, ArgumentReader* reader, Bound* bound) const {
  const bool alone = reader->tensors().empty() && !bound->traced;
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    if ((places >> i & 1) == 0) continue;
    PyObject* value = bound->slots[i];
    PyObject* name = PyTuple_GET_ITEM(parameters_, i);
    if (alone) {
      reader->read(value, name, reader->record(value));
      continue;
    }
    bound->made.push_back(checked(PyObject_CallMethod(value, "item", nullptr)));
    PyObject* item = bound->made.back().get();
    if (reader->record(item).kind != Kind::Constant) reader->refuse(name, value, "kind");
    add_constant(i, item, item, bound);
  }
}

// Reads the tensors and sets the constants aside.
void FastCall::sort(ArgumentReader* reader, Bound* bound) const {
  uint32_t numpy_numbers = 0;
  std::fill_n(bound->constants, parameter_count_, nullptr);
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    PyObject* value = bound->slots[i];
    const TypeRecord record = reader->record(value);
    const bool is_plain_object = record.kind == Kind::Unknown || record.kind == Kind::Structure;
    if (i == 0 && takes_object_ && is_plain_object) {
      bound->made.push_back(checked(PyObject_CallMethod(self_, "state", "(O)", value)));
      add_constant(i, bound->made.back().get(), value, bound);
    } else if (record.kind == Kind::NumpyNumber) {
      numpy_numbers |= uint32_t{1} << i;
    } else {
      sort_one(i, record, reader, bound);
    }
  }
  if (numpy_numbers != 0) take_numpy_numbers(numpy_numbers, reader, bound);
  if (!bound->traced && reader->tensors().empty()) reader->refuse(name_, Py_None, "no tensor");
}

// Checks a constant before it is hashed or compared, since both recurse to its depth.
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
    if (bound.constants[i] != nullptr)
      check_constant(reader, PyTuple_GET_ITEM(parameters_, i), bound.values[i]);
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
  Ref tensors = checked(PyList_New(0)), constants = checked(PyList_New(0)),
      numbers = checked(PyList_New(0));
  int next_symbol = 0;
  uint32_t next_tensor = 0;
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    const bool is_tensor = bound.constants[i] == nullptr;
    nb::object tensor = nb::none();
    if (is_tensor) {
      TensorClass about = tensor_class(signature.words[next_tensor++]);
      tensor = nb::make_tuple(nb::str(std::string(name(about.dtype)).c_str()),
                              tuple_from(about.symbolic_shape(&next_symbol)),
                              static_cast<int>(about.strides));
    }
    const nb::object is_number = nb::bool_((bound.is_number >> i & 1) != 0);
    if (PyList_Append(tensors.get(), tensor.ptr()) != 0 ||
        PyList_Append(constants.get(), is_tensor ? Py_None : bound.values[i]) != 0 ||
        PyList_Append(numbers.get(), is_number.ptr()) != 0)
      throw PythonError{};
  }
  return checked(PyTuple_Pack(3, tensors.get(), constants.get(), numbers.get()));
}

std::shared_ptr<const Program> FastCall::specialise(const Signature& signature,
                                                    const Bound& bound) {
  const Locked locked;
  Ref about = described(signature, bound);
  Ref method = checked(PyObject_GetAttrString(self_, "specialise"));
  Ref made = checked(PyObject_CallObject(method.get(), about.get()));
  if (!PyTuple_Check(made.get()) || PyTuple_GET_SIZE(made.get()) != 3) {
    PyErr_SetString(PyExc_TypeError, "specialise() must return (program, form, steering)");
    throw PythonError{};
  }
  const unsigned long steering = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(made.get(), 2));
  if (steering != 0) throw Steered{static_cast<uint32_t>(steering)};
  auto program = program_from(PyTuple_GET_ITEM(made.get(), 0));
  PyObject*& form = forms_[program.get()];
  Py_XDECREF(std::exchange(form, Py_NewRef(PyTuple_GET_ITEM(made.get(), 1))));
  return program;
}

// Asks for captured places only if there is no kernel: at first, and after a place changed.
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
      const Unlocked unlocked;
      entry = &kernel_table().entry(owner_, signature, [&]() -> std::shared_ptr<const Program> {
        try {
          return specialise(signature, bound);
        } catch (const PythonError&) {
          const Locked locked;
          raised.emplace();  // takes the error along: it belongs to this thread's state
          throw;
        }
      });
    } catch (const PythonError&) {
      raised->restore();
      throw;
    }
  }
  return last_ = {entry, forms_.at(entry->program.get())};
}

void FastCall::execute(Call* call, const ArgumentReader& reader,
                       std::span<void* const> outputs) const {
  int64_t work = 0;
  for (const pto_tensor_ref& tensor : reader.tensors()) work += element_bytes(tensor);
  for (size_t i = 0; i < outputs.size(); ++i) work += call->output_bytes(static_cast<int>(i));
  if (work <= kKeepLockBytes) return call->run(outputs);
  const Unlocked unlocked;
  const HostExecutor& host = torch_executor();
  if (reader.origin().kind != Kind::Torch || host.threads == nullptr) return call->run(outputs);
  ScopedThreadLimit limit(host.threads());
  if (host.run == nullptr) return call->run(outputs);
  ScopedExecutor executor(host.run, nullptr);
  call->run(outputs);
}

void FastCall::check_target(const pto_tensor_ref& target, PyObject* object,
                            const ArgumentReader& reader,
                            std::span<const pto_tensor_ref> others) const {
  static PyObject* const label = PyUnicode_InternFromString("out");
  if (!is_injective(target.rank, target.sizes, target.strides))
    reader.refuse(label, object, "out shared");
  for (const std::span<const pto_tensor_ref> all : {reader.tensors(), others})
    for (const pto_tensor_ref& one : all)
      if (overlap(address_range(target), address_range(one)))
        reader.refuse(label, object, "out overlap");
}

// Kernels write rows without gaps: results for arrays with gaps go to fresh memory first.
PyObject* FastCall::run_into(Call* call, const Program& program, PyObject* form,
                             const ArgumentReader& reader, PyObject* out) {
  static PyObject* const label = PyUnicode_InternFromString("out");
  ArgumentReader outputs(policy_, name_);
  Results aside(reader, policy_);
  const auto& specs = program.spec().outputs;
  Ref all = form == Py_None ? checked(PyTuple_Pack(1, out)) : Ref();
  if (!all) all = checked(PyObject_CallMethod(policy_, "targets", "OOO", name_, form, out));
  if (static_cast<size_t>(PyTuple_GET_SIZE(all.get())) != specs.size())
    reader.refuse(label, out, "out count", std::to_string(specs.size()).c_str());
  void* pointers[PTO_MAX_BUFFERS];
  std::vector<size_t> with_gaps;
  for (size_t i = 0; i < specs.size(); ++i) {
    PyObject* target = PyTuple_GET_ITEM(all.get(), static_cast<Py_ssize_t>(i));
    TypeRecord record = outputs.record(target);
    if (!reader.same_library(record))
      reader.refuse(label, target, "mixed libraries", Py_TYPE(reader.first())->tp_name);
    outputs.read(target, label, record, true);
    const pto_tensor_ref& tensor = outputs.tensors()[i];
    auto sizes = call->output_sizes(static_cast<int>(i));
    std::string wanted = std::string(name(specs[i].dtype)) + text(Dims(sizes.begin(), sizes.end()));
    bool fits = dtype_of(tensor) == specs[i].dtype &&
                static_cast<size_t>(tensor.rank) == sizes.size() &&
                std::equal(sizes.begin(), sizes.end(), tensor.sizes);
    if (!fits) reader.refuse(label, target, "out type", wanted.c_str());
    check_target(tensor, target, reader, outputs.tensors().first(i));
    pointers[i] = tensor.data;
    if (stride_class(tensor.sizes, tensor.strides, tensor.rank) == StrideClass::Contiguous)
      continue;
    with_gaps.push_back(i);
    pointers[i] = aside.add(dtype_of(tensor), sizes);
    if (pointers[i] == nullptr)
      fail_memory(program.spec().name.c_str(), static_cast<int>(i),
                  call->output_bytes(static_cast<int>(i)));
  }
  execute(call, reader, {pointers, specs.size()});
  for (size_t i = 0; i < with_gaps.size(); ++i) {
    const pto_tensor_ref& to = outputs.tensors()[with_gaps[i]];
    const pto_tensor_ref& from = aside.tensor(static_cast<int>(i));
    copy_strided(to.data, to.strides, from.data, from.strides, from.sizes, from.rank,
                 bytes(dtype_of(from)));
  }
  return Py_NewRef(out);
}

PyObject* FastCall::run(const Program& program, PyObject* form, const ArgumentReader& reader,
                        const Bound& bound) {
  uint64_t scalars[kMaxParameters];
  size_t scalar_count = 0;
  for (uint32_t rest = bound.is_number; rest != 0; rest &= rest - 1)
    std::memcpy(&scalars[scalar_count++], &bound.numbers[__builtin_ctz(rest)], sizeof(double));
  Call call(program, reader.tensors(), {scalars, scalar_count});
  if (bound.out != nullptr) return run_into(&call, program, form, reader, bound.out);
  Results results(reader, policy_);
  void* pointers[PTO_MAX_BUFFERS];
  const auto& outputs = program.spec().outputs;
  const auto count = static_cast<int>(outputs.size());
  for (int i = 0; i < count; ++i) {
    pointers[i] = results.add(outputs[static_cast<size_t>(i)].dtype, call.output_sizes(i));
    if (pointers[i] == nullptr) fail_memory(program.spec().name.c_str(), i, call.output_bytes(i));
  }
  execute(&call, reader, {pointers, outputs.size()});
  if (form == Py_None) return results.array(0).release();
  Ref all = checked(PyTuple_New(count));
  for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(all.get(), i, results.array(i).release());
  if (form == reinterpret_cast<PyObject*>(&PyTuple_Type)) return all.release();
  return checked(PyObject_CallMethod(form, "assemble", "(O)", all.get())).release();
}

// Looks a function up again with these numbers as constants if they turn out to steer it.
FastCall::Found FastCall::find_or_steer(const ArgumentReader& reader, Signature* signature,
                                        Bound* bound) {
  for (;;) {
    signature->attributes = attributes_key(constants_key(reader, *bound));
    try {
      return find(signature, *bound);
    } catch (const Steered& steered) {
      steering_ |= steered.parameters;
    }
    const uint32_t now_constant = std::exchange(bound->is_number, 0);
    for (Py_ssize_t i = 0; i < parameter_count_; ++i)
      if (now_constant >> i & 1) add_constant(i, bound->values[i], bound->values[i], bound);
  }
}

PyObject* FastCall::call_here(const ArgumentReader& reader, Bound* bound) {
  Signature signature;
  for (const pto_tensor_ref& tensor : reader.tensors()) signature.add(tensor);
  Found found = find_or_steer(reader, &signature, bound);
  return run(*found.entry->program, found.form, reader, *bound);
}

PyObject* FastCall::call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  Bound bound;
  bind(args, count, keywords, &bound);
  ArgumentReader reader(policy_, name_);
  const char* instead = "call_in_library";
  try {
    sort(&reader, &bound);
    if (!bound.traced) return call_here(reader, &bound);
    instead = "__wrapped__";
  } catch (const ForLibrary&) {
  }
  Ref other = checked(PyObject_GetAttrString(self_, instead));
  return PyObject_Vectorcall(other.get(), args, static_cast<size_t>(count), keywords);
}

PyObject* FastCall::describe(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  Bound bound;
  bind(args, count, keywords, &bound);
  ArgumentReader reader(policy_, name_);
  try {
    sort(&reader, &bound);
  } catch (const ForLibrary&) {
    reader.refuse(name_, Py_None, "for library");
  }
  if (bound.traced) reader.refuse(name_, Py_None, "kind");
  Signature signature;
  for (const pto_tensor_ref& tensor : reader.tensors()) signature.add(tensor);
  for (Py_ssize_t i = 0; i < parameter_count_; ++i)
    if (bound.constants[i] != nullptr)
      check_constant(reader, PyTuple_GET_ITEM(parameters_, i), bound.values[i]);
  return described(signature, bound).release();
}

}  // namespace pto::bindings
