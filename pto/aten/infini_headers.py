# SPDX-License-Identifier: Apache-2.0
"""Writes the classes of the compatible face in compat/infini: one header each, and one for all.

    write(folder, "/path/to/site-packages/torch/lib", identity=("2.13.0",))
    # folder/infini/ops.h, folder/infini/ops/add.h, ...

`python -m pto adapters build torch` calls it beside the part for C++ programs. write() leaves a
folder as it is that the same sources wrote for the same PyTorch. Thread safety: threads and
processes may write one folder at once.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pto.aten import outputs_last
from pto.aten.outputs_last import Operator, Signature, operators
from pto.whole_files import write_whole

_LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
COMPOSED = ("gemm",)  # classes that compat/infini has by hand


def write(folder: Path, torch_libraries: Path, identity: Sequence[str]) -> Path:
    """Writes all headers, infini/ops.h last, and returns the include folder. Raises OSError."""
    stamp = f"// {_digest(torch_libraries, identity)}\n"
    every = folder / "infini/ops.h"
    if every.exists() and every.read_text().endswith(stamp):
        return folder
    known = operators()
    for name, one in known.items():
        _replace(folder / f"infini/ops/{name}.h", header(one))
    path = json.dumps(os.fspath(torch_libraries))  # quoted as C++ reads it
    text = f"{_LICENCE}// The folder with the libraries of these headers' PyTorch.\n"
    text += f"#pragma once\n#define PTO_INFINI_TORCH_FOLDER {path}\n"
    _replace(folder / "infini/ops/torch_folder.h", text)
    lines = [f"#include <infini/{name}.h>" for name in COMPOSED]
    lines += [f"#include <infini/ops/{name}.h>" for name in known]
    opening = (
        f"{_LICENCE}// Every operator of PyTorch {identity[0]} as a class; see infini/operator.h."
    )
    _replace(every, "\n".join([opening, "#pragma once", *lines, stamp]))
    return folder


def header(one: Operator) -> str:
    """The header of one class: its signatures as comments, then as a table."""
    spaces, name = one.class_name
    space = "::".join(("infini", "ops", *spaces))
    return "\n".join(
        [
            f"{_LICENCE}#pragma once",
            "#include <infini/operator.h>",
            f"namespace {space} {{",
            *(f"// {name}::Call({signature})" for signature in one.signatures),
            f"class {name} : public Operator<{name}> {{",
            " public:",
            "  static constexpr ::infini::ops::detail::Signature kSignatures[] = {",
            *(f"      {_row(signature)}," for signature in one.signatures),
            "  };",
            "};",
            f"}}  // namespace {space}\n",
        ]
    )


def _row(one: Signature) -> str:
    out = json.dumps(one.out.full_name) if one.out else "nullptr"
    functional = json.dumps(one.functional.full_name) if one.functional else "nullptr"
    return (
        f'{{{out}, {functional}, "{one.letters}", "{"".join(_places(one))}", {one.required},'
        f' "{one.output_letters}"}}'
    )


def _places(one: Signature) -> Iterator[str]:
    """For each argument of the schema, outputs apart, its place in the signature, from 'a'."""
    places = {argument.name: i for i, argument in enumerate(one.arguments)}
    for argument in one.record.arguments:
        if argument.name in places:
            yield chr(ord("a") + places[argument.name])


def _digest(torch_libraries: Path, identity: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((os.fspath(torch_libraries), *identity)).encode())
    for source in (__file__, outputs_last.__file__):
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _replace(file: Path, text: str) -> None:
    """Replaces a header, which a compiler may be reading."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, [text.encode()])
