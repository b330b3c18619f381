# SPDX-License-Identifier: Apache-2.0
"""The handler of XLA's foreign function interface: bad call sites, and our declarations of XLA."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax_cases import same  # noqa: E402

import pto.jax  # noqa: E402,F401

ROOT = Path(__file__).parents[1]


def test_mistakes_at_run_time_are_errors_of_xla_with_our_text():
    wrong = jax.ffi.ffi_call("pto_xla_call", jax.ShapeDtypeStruct((3,), jnp.float32))
    x = jnp.zeros(4)
    for keywords, text in [
        ({"pto.op": "add"}, "add: 1 operands are too few"),
        ({"pto.op": "silu"}, r"silu: output 0 is f32\[4\], .* made for \[3\]"),
        ({"pto.op": "nosuch"}, "nosuch: there is no operator of this name"),
        ({"pto.op": 3}, "attribute pto.op is of kind"),
        ({}, "names no operator"),
        ({"pto.op": "softmax"}, "softmax: dim is missing"),
        ({"pto.op": "softmax", "dim": 1.5}, "dim is no integer"),
        ({"pto.op": "silu", "pto.index": 0}, "silu: output 0 is"),  # 0 is another operator
    ]:
        for _ in range(2):
            with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT: .*" + text):
                wrong(x, **keywords).block_until_ready()
    two = jax.ffi.ffi_call("pto_xla_call", [jax.ShapeDtypeStruct((4,), jnp.float32)] * 2)
    same(two(x, **{"pto.op": "silu"})[0], x)  # XLA wants a result more than there is


def test_a_call_site_that_has_run_takes_new_numbers():
    x = jnp.asarray([-2.0, 3.0])
    scaled = jax.jit(lambda number: pto.jax.mul_scalar(x, number))
    for number in (0.5, 0.25, 0.125, 0.5):
        same(scaled(number), x * number)


def test_a_call_site_may_run_in_several_threads_from_its_first_call_on():
    x = jnp.arange(24.0).reshape(4, 6)
    want = pto.jax.softmax(x, 1) + pto.jax.softmax(2 * x, 1)
    for _ in range(5):
        run = jax.jit(lambda x: pto.jax.softmax(x, 1) + pto.jax.softmax(2 * x, 1))
        run = run.lower(x).compile()
        with ThreadPoolExecutor(4) as threads:
            for found in threads.map(lambda _, run=run: run(x), range(40)):
                same(found, want)


FIELDS = {  # struct of ours: (struct of jaxlib's header, {field of ours: field of theirs})
    "Extension": ("Extension_Base", {"type": "type", "next": "next"}),
    "Version": ("Api_Version", {"major": "major_version", "minor": "minor_version"}),
    "Metadata": ("Metadata", {"version": "api_version", "traits": "traits"}),
    "MetadataExtension": ("Metadata_Extension", {"metadata": "metadata"}),
    "Buffer": ("Buffer", {"dtype": "dtype", "data": "data", "rank": "rank", "sizes": "dims"}),
    "Text": ("ByteSpan", {"data": "ptr", "bytes": "len"}),
    "Scalar": ("Scalar", {"dtype": "dtype", "value": "value"}),
    "Array": ("Array", {"dtype": "dtype", "size": "size", "data": "data"}),
    "Attributes": (
        "Attrs",
        {"size": "size", "types": "types", "names": "names", "items": "attrs"},
    ),
    "TypeId": ("TypeId", {"number": "type_id"}),
    "TypeInfo": ("TypeInfo", {"deleter": "deleter"}),
    "RegisterTypeArguments": (
        "Type_Register_Args",
        {"name": "name", "type": "type_id", "info": "type_info"},
    ),
    "StateArguments": (
        "State_Get_Args",
        {"context": "ctx", "stage": "stage", "type": "type_id", "state": "state"},
    ),
    "CreateErrorArguments": ("Error_Create_Args", {"message": "message", "code": "errc"}),
    "DestroyErrorArguments": ("Error_Destroy_Args", {"error": "error"}),
    "ScheduleArguments": (
        "ThreadPool_Schedule_Args",
        {"context": "ctx", "task": "task", "data": "data"},
    ),
    "NumThreadsArguments": (
        "ThreadPool_NumThreads_Args",
        {"context": "ctx", "threads": "num_threads"},
    ),
    "Api": (
        "Api",
        {
            "version": "api_version",
            "create_error": "XLA_FFI_Error_Create",
            "destroy_error": "XLA_FFI_Error_Destroy",
            "register_type": "XLA_FFI_Type_Register",
            "set_state": "XLA_FFI_State_Set",
            "get_state": "XLA_FFI_State_Get",
            "schedule": "XLA_FFI_ThreadPool_Schedule",
            "num_threads": "XLA_FFI_ThreadPool_NumThreads",
        },
    ),
    "CallFrame": (
        "CallFrame",
        {
            "api": "api",
            "context": "ctx",
            "stage": "stage",
            "arguments": "args",
            "results": "rets",
            "attributes": "attrs",
        },
    ),
}


def header_checks():
    lines = ['#include "xla/ffi/api/c_api.h"', '#include "pto/adapters/jax/ffi.hpp"']
    lines.append("using namespace pto::xla_ffi;")
    for ours, (theirs, fields) in FIELDS.items():
        lines += [
            f"static_assert(offsetof({ours}, {a}) == offsetof(XLA_FFI_{theirs}, {b}));"
            for a, b in fields.items()
        ]
    for list_ in ("Args", "Rets"):
        items = list_.lower()
        lines.append(
            f"static_assert(offsetof(Buffers, items) == offsetof(XLA_FFI_{list_}, {items}));"
        )
        lines.append(f"static_assert(sizeof(Buffers) == sizeof(XLA_FFI_{list_}));")
    types = re.findall(r"k(Pred|B?[SUF]\d+) = ", (ROOT / "pto/adapters/jax/ffi.hpp").read_text())
    lines += [f"static_assert(int(k{t}) == int(XLA_FFI_DataType_{t.upper()}));" for t in types]
    lines += [
        f"static_assert(int(k{a}) == int(XLA_FFI_AttrType_{a.upper()}));"
        for a in ("Array", "Dictionary", "Scalar", "String")
    ]
    lines.append("static_assert(sizeof(StateArguments) == sizeof(XLA_FFI_State_Set_Args));")
    lines.append("static_assert(kInstantiate == int(XLA_FFI_ExecutionStage_INSTANTIATE));")
    lines.append("static_assert(kStateMinorVersion <= XLA_FFI_API_MINOR);")
    lines.append("static_assert(kExecute == int(XLA_FFI_ExecutionStage_EXECUTE));")
    lines.append("static_assert(kBufferType == int(XLA_FFI_ArgType_BUFFER));")
    lines.append("static_assert(kMetadataExtension == int(XLA_FFI_Extension_Metadata));")
    assert len(types) == 13 and len(lines) > 60
    return "\n".join(lines)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_our_declarations_of_xla_are_those_of_its_header(tmp_path):
    source = tmp_path / "check.cpp"
    source.write_text(header_checks())
    done = subprocess.run(
        ["g++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{ROOT}",
         f"-I{jax.ffi.include_dir()}", str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
