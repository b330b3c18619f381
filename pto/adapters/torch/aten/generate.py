# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ text that follows from the PyTorch that is installed.

    thunks_text()        # a row for each function of at::_ops: its typed call
    fronts_text()        # a row for each overload that a front stands before
    functions_text()     # an inline function for each, without PyTorch's headers

Names and C++ types are read from PyTorch's headers, arguments from the dispatcher's records.
"""

import pathlib
import re
from dataclasses import dataclass

import torch
from pto.aten.records import record_of
from pto.aten.rows import forms, row_of
from pto.aten.table import ROWS

HEADERS = pathlib.Path(torch.__file__).parent / "include/ATen/ops"
FUNCTION = re.compile(  # struct, C++ type, name, overload, schema
    r'struct TORCH_API (\w+) \{\s*using schema = (.*?);\n.*?name = "aten::(.*?)";'
    r'.*?overload_name = "(.*?)";.*?schema_str = "(.*?)";',
    re.S,
)
_IN_FRONT = re.compile(
    r"const at::Tensor &|at::Tensor &|const ::std::optional<at::Tensor> &|at::TensorList"
    r"|const at::ITensorListRef &|const at::Scalar &|const ::std::optional<at::Scalar> &|int64_t"
    r"|c10::SymInt|bool|double|at::IntArrayRef|c10::SymIntArrayRef|at::OptionalIntArrayRef"
    r"|(::std::optional<)?c10::string_view>?|at::ScalarType|::std::array<bool,\d>"
    r"|::std::optional<(double|int64_t|at::ScalarType|at::MemoryFormat)>"
)
_OF_FRONT = re.compile(r"at::Tensor( &)?|::std::tuple<at::Tensor( &)?(,at::Tensor( &)?)+>")
_HEAD = f"// Written by generate.py for PyTorch {torch.__version__}."
_NOT_HELD = re.compile(r"at::Storage|at::Stream|at::DeviceIndex")  # arguments that no plan holds


@dataclass(frozen=True, order=True)
class Function:
    """A struct of at::_ops and the overload that it calls."""

    name: str
    overload: str
    struct: str
    type: str  # "at::Tensor & (const at::Tensor &, at::Tensor &)"

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def result(self) -> str:
        return self.type.partition(" (")[0]

    @property
    def arguments(self) -> list[str]:
        return self.type.partition(" (")[2][:-1].split(", ")


def functions() -> list[Function]:
    """All functions whose arguments a plan holds, by name and overload."""
    found = []
    for header in HEADERS.glob("*_ops.h"):
        for struct, type_, name, overload, _ in FUNCTION.findall(header.read_text()):
            if not _NOT_HELD.search(type_):
                found.append(Function(name, overload, struct, type_))
    return sorted(found)


def thunks_text() -> str:
    """The table of thunks.hpp, sorted by name and overload as find_thunk() reads it."""
    rows = "".join(f"PTO_THUNK({one.struct})\n" for one in functions())
    return f"""{_HEAD}
#include <ATen/core/Tensor.h>
#include <ATen/Operators.h>

#include "pto/adapters/torch/aten/thunks.hpp"

#define PTO_THUNK(op)                                       \\
  {{at::_ops::op::name, at::_ops::op::overload_name,         \\
   reinterpret_cast<void (*)()>(&at::_ops::op::call),       \\
   Typed<at::_ops::op::schema>::kHold, Typed<at::_ops::op::schema>::call}},

namespace pto::torch_adapter {{

const Thunk kThunks[] = {{
{rows}}};
const size_t kThunkCount = sizeof kThunks / sizeof *kThunks;

}}  // namespace pto::torch_adapter
"""


def fronts_text() -> str:
    """The table of fronts.hpp."""
    rows = "".join(
        f'front_row<{one.type}>("aten::{one.name}", "{one.overload}", {_others(one)},'
        f" {_written(one)}),\n"
        for one in fronts()
    )
    return f"""{_HEAD}
#include "pto/adapters/torch/aten/fronts.hpp"

namespace pto::torch_adapter {{

const FrontRow kFronts[] = {{
{rows}}};
const size_t kFrontCount = sizeof kFronts / sizeof *kFronts;

}}  // namespace pto::torch_adapter
"""


def fronts() -> list[Function]:
    """The functions of overloads that have a row, as far as a front passes their arguments."""
    rows = {full for one in ROWS.values() for full in forms(one)}
    found = []
    for one in functions():
        is_taken = one.full_name in rows and _OF_FRONT.fullmatch(one.result)
        if is_taken and all(map(_IN_FRONT.fullmatch, one.arguments)):
            found.append(one)
    return found


def _others(one: Function) -> int:
    """A bit for each argument whose tensors may have another element type than the rest."""
    record = record_of(one.full_name)
    found = row_of(one.full_name)
    assert found is not None, "fronts() asked for a row"
    written = record.output_names
    names = {n for n, type_ in zip(written, found.results, strict=False) if type_}
    names |= set(found.others)
    return sum(1 << i for i, a in enumerate(record.arguments) if a.name in names)


def _written(one: Function) -> int:
    """A bit for each argument that a call writes."""
    arguments = record_of(one.full_name).arguments
    return sum(1 << i for i, a in enumerate(arguments) if a.is_written)


# The keywords of C++, and the names that a written function has itself.
_KEYWORDS = frozenset({
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "class", "compl", "const", "constexpr", "continue", "decltype",
    "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false",
    "float", "for", "friend", "goto", "if", "inline", "int", "library", "long", "mutable",
    "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq",
    "private", "protected", "public", "register", "return", "short", "signed", "sizeof", "static",
    "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typeid",
    "typename", "union", "unsigned", "using", "values", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq",
})  # fmt: skip


def functions_text() -> str:
    """The header pto/aten/functions.hpp: a function of C++ for each overload."""
    return f"""// Written by generate.py for PyTorch {torch.__version__}: its operators.
//
//     pto::aten::add_out(library, x, y, 2, out);     // Tensors over memory, or results
//     pto::aten::Tensor z = pto::aten::neg(library, x);
//
// Functions that write an argument return nothing. Errors: pto::aten::Error.
// Thread safety: that of pto::aten::Library.
#pragma once

#include <pto/aten.hpp>

namespace pto::aten {{

{"".join(map(_function_text, functions()))}
}}  // namespace pto::aten
"""


def _function_text(one: Function) -> str:
    record = record_of(one.full_name)
    given = [a.name + "_" * (a.name in _KEYWORDS) for a in record.arguments]
    parameters = [f"const Argument& {name}" for name in given]
    for i in reversed(range(len(parameters))):
        if record.arguments[i].is_required:
            break
        parameters[i] += " = left_out"
    writes = record.outputs or (one.name.endswith("_") and record.arguments[0].is_written)
    result, call = "std::vector<Value>", "return library.results"
    if writes or not record.returns:
        result, call = "void", "library.run"
    values = f"values[] = {{{', '.join(f'{name}.value()' for name in given)}}}"
    values = f"const pto_aten_value {values if given else '*values = nullptr'};"
    made = f"{call}(op, values, {len(given)})"
    if result != "void" and record.returns == ("Tensor",):
        result, made = "Tensor", f"{made}[0].tensor()"
    return f"""// {record.schema}
inline {result} {one.struct}({", ".join(["const Library& library", *parameters])}) {{
  static const pto_aten_operator* const op = library.find("{record.full_name}");
  {values}
  {made};
}}
"""
