// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/jit_binder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "pto/abi/limits.h"
#include "pto/base/strided.hpp"
#include "pto/bindings/constants.hpp"
#include "pto/bindings/interruption.hpp"
#include "pto/bindings/module.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/bindings/weight_owners.hpp"
#include "pto/launch/package.hpp"

namespace nb = nanobind;

namespace pto::bindings {
namespace {

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

bool& interprets_calls() {
  static bool yes = false;
  return yes;
}

JitBinder::JitBinder(PyObject* self, PyObject* name, PyObject* parameters, PyObject* defaults,
                     PyObject* policy, bool takes_object, bool in_any_mode)
    : self_(self),
      name_(Py_NewRef(name)),
      policy_(Py_NewRef(policy)),
      parameter_count_(PyTuple_GET_SIZE(parameters)),
      takes_object_(takes_object),
      in_any_mode_(in_any_mode),
      owner_(kernel_table().new_owner(PyUnicode_AsUTF8(name))) {
  const Py_ssize_t first_default = parameter_count_ - PyTuple_GET_SIZE(defaults);
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    PyObject* const given =
        i < first_default ? Py_Ellipsis : PyTuple_GET_ITEM(defaults, i - first_default);
    const bool is_required = given == Py_Ellipsis;  // or by name only, and without a default
    parameters_.add(PyTuple_GET_ITEM(parameters, i), is_required ? nullptr : given, is_required,
                    /*by_name=*/false);
  }
}

JitBinder::~JitBinder() {
  kernel_table().erase_owner(owner_);
  for (const uint64_t owner : owners_before_) kernel_table().erase_owner(owner);
  for (auto& row : constants_)
    for (PyObject* constant : row) Py_XDECREF(constant);
  for (auto& [program, form] : forms_) Py_DECREF(form);
  Py_DECREF(name_), Py_DECREF(policy_);
}

void JitBinder::forget_kernels() {
  owners_before_.push_back(
      std::exchange(owner_, kernel_table().new_owner(PyUnicode_AsUTF8(name_))));
  last_ = {};
}

int JitBinder::visit(visitproc visit, void* arg) const {
  Py_VISIT(policy_);
  for (const auto& row : constants_)
    for (PyObject* constant : row) Py_VISIT(constant);
  for (const auto& [program, form] : forms_) Py_VISIT(form);
  if (const int stopped = parameters_.visit(visit, arg)) return stopped;
  return captures_.visit(visit, arg);
}

void JitBinder::mismatch(const Passed& passed) const {
  const auto& [args, count, keywords] = passed;
  Ref positional = checked(PyTuple_New(count)), named = checked(PyDict_New());
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_GET_SIZE(keywords); ++i)
    PyDict_SetItem(named.get(), PyTuple_GET_ITEM(keywords, i), args[count + i]);
  Ref none = checked(
      PyObject_CallMethod(policy_, "mismatch", "OOO", self_, positional.get(), named.get()));
  PyErr_Format(PyExc_TypeError, "%U: the arguments do not fit the parameters", name_);
  throw PythonError{};
}

void JitBinder::bind(const Passed& passed, Bound* bound) const {
  if (!parameters_.bind(passed, bound->slots, &bound->out)) mismatch(passed);
}

// Puts `key` into the key and passes `value` to the function; both are borrowed.
void JitBinder::add_constant(Py_ssize_t place, PyObject* key, PyObject* value, Bound* bound) const {
  bound->constants[place] = key;
  bound->values[place] = value;
  if (PyFloat_CheckExact(value) && (steering_ >> place & 1) == 0) {
    bound->constants[place] = reinterpret_cast<PyObject*>(&PyFloat_Type);
    bound->numbers[place] = PyFloat_AS_DOUBLE(value);
    bound->is_number |= Places{1} << place;
  }
  bound->has_constants = true;
}

// Adds what stands for a value that may change: the key that arguments.py makes of it.
void JitBinder::add_structure(Py_ssize_t place, const char* key, Bound* bound) const {
  PyObject *const name = parameters_.name(place), *const value = bound->slots[place];
  bound->made.push_back(checked(PyObject_CallMethod(policy_, key, "OOO", name_, name, value)));
  add_constant(place, bound->made.back().get(), value, bound);
}

void JitBinder::sort_one(Py_ssize_t place, TypeRecord record, ArgumentReader* reader,
                         Bound* bound) const {
  PyObject* value = bound->slots[place];
  PyObject* name = parameters_.name(place);
  switch (record.kind) {
    case Kind::Constant:
      if (is_plain(*reader, name, value)) return add_constant(place, value, value, bound);
      return add_structure(place, "constant_key", bound);
    case Kind::Traced:
      bound->traced = true;
      return;
    case Kind::Structure:
      return add_structure(place, "key", bound);
    case Kind::Library:
      throw ForLibrary{};
    case Kind::Unknown:
      reader->refuse(name, value, "kind");
    case Kind::Torch:
      if (const auto is_plain = torch_executor().is_plain;
          !in_any_mode_ && reader->tensors().empty() && is_plain != nullptr && is_plain() == 0)
        throw ForLibrary{};
      [[fallthrough]];
    default:
      reader->read(value, name, record);
  }
}

// Takes NumPy numbers as constants beside arrays, and as arrays of rank 0 if there are no arrays.
void JitBinder::take_numpy_numbers(Places places, ArgumentReader* reader, Bound* bound) const {
  const bool alone = reader->tensors().empty() && !bound->traced;
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    if ((places >> i & 1) == 0) continue;
    PyObject* value = bound->slots[i];
    PyObject* name = parameters_.name(i);
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
void JitBinder::sort(ArgumentReader* reader, Bound* bound) const {
  Places numpy_numbers = 0;
  std::fill_n(bound->constants, parameter_count_, nullptr);
  for (Py_ssize_t i = 0; i < parameter_count_; ++i) {
    PyObject* value = bound->slots[i];
    const TypeRecord record = reader->record(value);
    const bool is_plain_object = record.kind == Kind::Unknown || record.kind == Kind::Structure;
    if (i == 0 && takes_object_ && is_plain_object) {
      bound->made.push_back(checked(PyObject_CallMethod(self_, "state", "(O)", value)));
      add_constant(i, bound->made.back().get(), value, bound);
    } else if (record.kind == Kind::NumpyNumber) {
      numpy_numbers |= Places{1} << i;
    } else {
      sort_one(i, record, reader, bound);
    }
  }
  if (numpy_numbers != 0) take_numpy_numbers(numpy_numbers, reader, bound);
  if (!bound->traced && reader->tensors().empty()) reader->refuse(name_, Py_None, "no tensor");
}

// Says whether a constant holds constants alone, in tuples. Their depth is bounded, since hashes
// and comparisons recurse to it.
bool JitBinder::is_plain(const ArgumentReader& reader, PyObject* name, PyObject* value,
                         int depth) const {
  if (!PyTuple_CheckExact(value)) return true;
  if (depth == kMaxConstantDepth) reader.refuse(name, value, "depth");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    PyObject* item = PyTuple_GET_ITEM(value, i);
    if (reader.record(item).kind != Kind::Constant) return false;
    if (!is_plain(reader, name, item, depth + 1)) return false;
  }
  return true;
}

uint64_t JitBinder::constants_key(const Bound& bound) {
  if (!bound.has_constants) return 0;
  auto count = static_cast<size_t>(parameter_count_);
  auto same = [&](uint64_t key) {
    return same_constants(constants_[key - 1].data(), bound.constants, count);
  };
  if (last_constants_ != 0 && same(last_constants_)) return last_constants_;
  size_t hash = hash_constants(bound.constants, count);
  auto [begin, end] = constant_keys_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (same(it->second)) return last_constants_ = it->second;
  constants_.emplace_back(bound.constants, bound.constants + count);
  for (PyObject* constant : constants_.back()) Py_XINCREF(constant);
  constant_keys_.emplace(hash, constants_.size());
  return last_constants_ = constants_.size();
}

Ref JitBinder::described(const Signature& signature, const Bound& bound) const {
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

std::shared_ptr<const Program> JitBinder::specialise(const Signature& signature,
                                                     const Bound& bound) {
  const Locked locked;
  Ref about = described(signature, bound);
  Ref method = checked(PyObject_GetAttrString(self_, "specialise"));
  Ref made = checked(PyObject_CallObject(method.get(), about.get()));
  if (!PyTuple_Check(made.get()) || PyTuple_GET_SIZE(made.get()) != 3) {
    PyErr_SetString(PyExc_TypeError, "specialise() must return (program, form, steering)");
    throw PythonError{};
  }
  const Places steering = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(made.get(), 2));
  if (PyTuple_GET_ITEM(made.get(), 0) == Py_None && steering == 0) throw Stepped{};
  if (steering != 0) throw Steered{steering};
  auto program = program_from(PyTuple_GET_ITEM(made.get(), 0));
  PyObject*& form = forms_[program.get()];
  Py_XDECREF(std::exchange(form, Py_NewRef(PyTuple_GET_ITEM(made.get(), 1))));
  return program;
}

// Asks for captured places only if there is no kernel: at first, and after a place changed.
JitBinder::Found JitBinder::find(Signature* found, const Bound& bound) {
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
    captures_.refresh(self_);  // leaves out what the function has changed in its tracing
  }
  bool wants_copies = false;
  for (uint32_t i = 0; i < signature.count; ++i)
    wants_copies |=
        wants_copy(entry->program->spec().inputs[i], tensor_class(signature.words[i]).strides);
  const Found made = {entry, forms_.at(entry->program.get()), wants_copies};
  if (entry->owner == owner_) last_ = made;  // else the kernels were forgotten meanwhile
  return made;
}

// Returns the tensors with copies for those that the code, of a package, takes without gaps alone.
std::span<const pto_tensor_ref> JitBinder::copied(
    const Found& found, const ArgumentReader& reader, Staging* staging,
    std::array<pto_tensor_ref, PTO_MAX_TENSORS>* copies) const {
  const std::span given = reader.tensors();
  std::copy(given.begin(), given.end(), copies->begin());
  for (size_t i = 0; i < given.size(); ++i) {
    const StrideClass strides = tensor_class(found.entry->signature.words[i]).strides;
    if (!wants_copy(found.entry->program->spec().inputs[i], strides)) continue;
    (*copies)[i].data = staging->copy_of(given[i]);
    (*copies)[i].strides = nullptr;
  }
  return {copies->data(), given.size()};
}

PackedConstants JitBinder::constants_of(const ProgramSpec& spec, const ArgumentReader& reader,
                                        const Bound& bound) const {
  PackedConstants constants(spec);
  static bool has_asked = false;  // the adapter, for owners of torch tensors
  if (!constants.empty() && reader.origin().kind == Kind::Torch && !std::exchange(has_asked, true))
    const Ref none = checked(PyObject_CallMethod(policy_, "load_weight_owner", nullptr));
  for (size_t i = 0; i < spec.packed.size(); ++i) {
    PyObject* const array = bound.slots[parameter_of(spec.packed[i].input, bound)];
    pto_weight_owner owner;
    if (weight_owner(array, reader.origin().kind, &owner)) constants.set_owner(i, owner);
  }
  return constants;
}

void JitBinder::execute(Call* call, const ArgumentReader& reader, std::span<void* const> outputs,
                        PackedConstants* constants) const {
  int64_t work = 0;
  for (const pto_tensor_ref& tensor : reader.tensors()) work += element_bytes(tensor);
  for (size_t i = 0; i < outputs.size(); ++i) work += call->output_bytes(static_cast<int>(i));
  const auto run = [&] {
    if (!constants->empty()) call->set_params(constants->find(call->inputs()));
    call->run(outputs);
  };
  running([&] {
    if (work <= kKeepLockBytes) return run();
    const Unlocked unlocked;
    if (reader.origin().kind != Kind::Torch) return run();
    run_on_torch_threads(run);
  });
}

// Reads the arrays of `out=`, one for each of the `count` outputs, and returns them as a tuple.
Ref JitBinder::read_targets(ArgumentReader* targets, size_t count, PyObject* form,
                            const ArgumentReader& reader, PyObject* out) const {
  Ref all = form == Py_None
                ? checked(PyTuple_Pack(1, out))
                : checked(PyObject_CallMethod(policy_, "targets", "OOO", name_, form, out));
  targets->read_targets(all.get(), count, out, reader);
  return all;
}

ResultTarget JitBinder::target_of(const ProgramSpec& spec, size_t output,
                                  const ArgumentReader& reader, const Bound& bound) const {
  if (spec.outputs[output].writes < 0) return {};
  const auto written = static_cast<size_t>(spec.outputs[output].writes);
  const Py_ssize_t place = parameter_of(spec.outputs[output].writes, bound);
  const pto_tensor_ref& tensor = reader.tensors()[written];
  const bool is_there =
      reader.may_write(written) && may_write_in_place(spec, output, reader.tensors());
  return {is_there ? &tensor : nullptr, bound.slots[place], parameters_.name(place),
          is_there && !is_contiguous(tensor.rank, tensor.sizes, tensor.strides)};
}

Py_ssize_t JitBinder::parameter_of(int tensor, const Bound& bound) const {
  for (Py_ssize_t place = 0; place < parameter_count_; ++place)
    if (bound.constants[place] == nullptr && tensor-- == 0) return place;
  return -1;
}

// Writes the numbers of a call, and returns how many there are.
size_t JitBinder::take_numbers(const Bound& bound, uint64_t* scalars) {
  size_t count = 0;
  for (Places rest = bound.is_number; rest != 0; rest &= rest - 1)
    std::memcpy(&scalars[count++], &bound.numbers[std::countr_zero(rest)], sizeof(double));
  return count;
}

PyObject* JitBinder::run(const Found& found, const ArgumentReader& reader, const Bound& bound) {
  const Program& program = *found.entry->program;
  PyObject* const form = found.form;
  uint64_t scalars[kMaxParameters];
  const size_t scalar_count = take_numbers(bound, scalars);
  Staging dense(program.spec().name.c_str());
  std::array<pto_tensor_ref, PTO_MAX_TENSORS> copies;
  const auto tensors =
      found.wants_copies ? copied(found, reader, &dense, &copies) : reader.tensors();
  Call call(program, tensors, {scalars, scalar_count});
  const auto& outputs = program.spec().outputs;
  const auto count = static_cast<int>(outputs.size());
  Results results(reader, policy_, program.spec().name.c_str());
  std::unique_ptr<ArgumentReader> targets;
  Ref named;
  if (bound.out != nullptr) {
    targets = std::make_unique<ArgumentReader>(policy_, name_);
    named = read_targets(targets.get(), outputs.size(), form, reader, bound.out);
    for (size_t i = 0; i < outputs.size(); ++i) {
      PyObject* const object = PyTuple_GET_ITEM(named.get(), static_cast<Py_ssize_t>(i));
      const pto_tensor_ref& target = targets->tensors()[i];
      reader.check_target(target, out_label(), object, reader.tensors(), [&](size_t input) {
        return "an input, " + program.spec().inputs[input].name;
      });
      reader.check_target(target, out_label(), object, targets->tensors().first(i),
                          [](size_t output) { return "output " + std::to_string(output); });
    }
  }
  void* pointers[PTO_MAX_BUFFERS];
  for (int i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(i);
    ResultTarget target{};
    if (bound.out != nullptr)
      target = {&targets->tensors()[place], PyTuple_GET_ITEM(named.get(), i), out_label(), false};
    else
      target = target_of(program.spec(), place, reader, bound);
    if (target.as_it_lies) call.lay_over_input(place);
    pointers[i] = results.add(outputs[place].dtype, call.output_sizes(i), target);
    if (pointers[i] == nullptr) results.fail();
  }
  results.check_targets();
  PackedConstants constants = constants_of(program.spec(), reader, bound);
  execute(&call, reader, {pointers, outputs.size()}, &constants);
  results.finish();
  if (bound.out != nullptr) return Py_NewRef(bound.out);
  if (results.are_in_targets()) {  // of parameters: nothing is returned
    results.count_changes();
    return Py_NewRef(Py_None);
  }
  if (form == Py_None) return results.array(0).release();
  Ref all = checked(PyTuple_New(count));
  for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(all.get(), i, results.array(i).release());
  if (form == reinterpret_cast<PyObject*>(&PyTuple_Type)) return all.release();
  return checked(PyObject_CallMethod(form, "assemble", "(O)", all.get())).release();
}

// Looks a function up again with these numbers as constants if they turn out to steer it.
JitBinder::Found JitBinder::find_or_steer(Signature* signature, Bound* bound) {
  for (;;) {
    signature->attributes = attributes_key(constants_key(*bound));
    try {
      return find(signature, *bound);
    } catch (const Steered& steered) {
      steering_ |= steered.parameters;
    }
    const Places now_constant = std::exchange(bound->is_number, 0);
    for (Py_ssize_t i = 0; i < parameter_count_; ++i)
      if (now_constant >> i & 1) add_constant(i, bound->values[i], bound->values[i], bound);
  }
}

PyObject* JitBinder::call_here(const ArgumentReader& reader, Bound* bound) {
  Signature signature;
  for (const pto_tensor_ref& tensor : reader.tensors()) signature.add(tensor);
  Found found = find_or_steer(&signature, bound);
  return run(found, reader, *bound);
}

PyObject* JitBinder::call(const Passed& passed, const char** instead) {
  Bound bound;
  bind(passed, &bound);
  ArgumentReader reader(policy_, name_);
  try {
    sort(&reader, &bound);
    *instead = "call_interpreted";
    if (!bound.traced) return interprets_calls() ? nullptr : call_here(reader, &bound);
    *instead = "call_traced";
  } catch (const ForLibrary&) {
    *instead = "call_in_library";
  } catch (const Stepped&) {
  }
  return nullptr;
}

PyObject* JitBinder::describe(const Passed& passed) {
  Bound bound;
  bind(passed, &bound);
  ArgumentReader reader(policy_, name_);
  try {
    sort(&reader, &bound);
  } catch (const ForLibrary&) {
    reader.refuse(name_, Py_None, "for library");
  }
  if (bound.traced) reader.refuse(name_, Py_None, "traced");
  Signature signature;
  for (const pto_tensor_ref& tensor : reader.tensors()) signature.add(tensor);
  return described(signature, bound).release();
}

}  // namespace pto::bindings
