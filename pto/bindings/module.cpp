// SPDX-License-Identifier: Apache-2.0
// The extension module pto._core: the parts in order, and the translation of errors.
#include "pto/bindings/module.hpp"

#include <nanobind/stl/string.h>

#include "pto/abi/limits.h"
#include "pto/tasks/processes/host_engine.hpp"

namespace nb = nanobind;

namespace pto::bindings {

namespace {

// User code may say anything: bytes that are no UTF-8 become marks, and the error stays.
nb::object str_of(const std::string& text) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

// Sets the error that `make` returns, or what interrupts it: the handler of a signal, such as that
// of Ctrl-C, or the deadline of an orchestration.
template <class F>
void set_made(F make) {
  try {
    const nb::object value = make();
    PyErr_SetObject(value.type().ptr(), value.ptr());
  } catch (nb::python_error& raised) {
    raised.restore();
  }
}

}  // namespace

void set_python_error(const Error& error) {
  set_made([&]() -> nb::object {
    const ErrorText& text = error.text();
    const nb::object classes = nb::module_::import_("pto.errors").attr("BY_KIND");
    return classes[static_cast<size_t>(error.kind())](str_of(text.what), str_of(text.why),
                                                      str_of(text.fix), str_of(error.location()));
  });
}

namespace {

// Sets the error with what is known of the task, for programs to read.
void set_task_failure(const HostError& error) {
  set_made([&] {
    const TaskFailure& failure = error.failure;
    const nb::object type = nb::module_::import_("pto.errors").attr("TaskFailure");
    const ErrorText& text = error.text();
    nb::object value = type(str_of(text.what), str_of(text.why), str_of(text.fix));
    value.attr("task") = failure.task;
    value.attr("name") = str_of(failure.name);
    value.attr("site") = str_of(failure.site);
    value.attr("device") = failure.device;
    value.attr("signal") = failure.signal;
    value.attr("cause") = str_of(failure.text);
    return value;
  });
}

}  // namespace
}  // namespace pto::bindings

NB_MODULE(_core, m) {
  using namespace pto::bindings;
  // Globals and torch.compile's caches live until the process ends, where nanobind would list them.
  nb::set_leak_warnings(false);
  m.doc() = "The compiled core of pto. Use the names of `pto`, not these.";
  m.attr("MAX_RANK") = int{PTO_MAX_RANK};
  m.attr("MAX_TENSORS") = int{PTO_MAX_TENSORS};
  m.attr("MAX_ARGUMENTS") = int{PTO_MAX_ARGUMENTS};
  m.attr("MAX_OUTPUTS") = int{PTO_MAX_OUTPUTS};
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const pto::HostError& error) {
      set_task_failure(error);
    } catch (const pto::Error& error) {
      set_python_error(error);
    }
  });
  bind_graph(m);
  bind_interpret(m);
  bind_compile(m);
  bind_explain(m);
  bind_recording(m);
  bind_machine(m);
  bind_callable(m);
  bind_packages(m);
  bind_operator_shapes(m);
  bind_operators(m);
  bind_traces(m);
  bind_tile_operations(m);
  bind_tasks(m);
  bind_host(m);
}
