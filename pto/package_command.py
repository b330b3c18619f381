# SPDX-License-Identifier: Apache-2.0
"""python -m pto package: saves functions for calls, or builds kernels of pto.ops ahead.

    python -m pto package kernels.pto 'rows(f32[:, :])' --of my_kernels.py
    python -m pto package kernels.pto            # lists what the file holds

Thread safety: one process at a time.
"""

import argparse
import importlib
import os

from pto import container
from pto.errors import InvalidValue
from pto.named_module import module_of

_FORM = "write python -m pto package FILE CALL..., FILE alone, or --library"


def run(arguments: argparse.Namespace) -> str:
    """Does what the words say; returns what the command prints."""
    _check_words(arguments)
    if arguments.library:
        return importlib.import_module("pto.ahead").build(arguments)
    if not arguments.calls:
        return container.described(arguments.file)
    modules = [module_of(arguments.of, "package --of")] if arguments.of else []
    modules.append(importlib.import_module("pto.ops"))
    texts = importlib.import_module("pto.language.call_texts")
    library = importlib.import_module("pto.language.library")
    found = texts.functions_of(arguments.calls, modules)
    library.package(found, arguments.file, arguments.targets, arguments.texts)
    size = os.path.getsize(arguments.file)
    return f"{arguments.file}: {len(found)} functions, {len(arguments.calls)} calls, {size} bytes"


def _check_words(arguments: argparse.Namespace) -> None:
    """Refuses words that would be ignored, and a call in the place of the file."""
    is_library, has_calls = arguments.library, bool(arguments.calls)
    for name, needs, fits in (
        ("list", "--library", is_library),
        ("into", "--library", is_library),
        ("of", "calls", has_calls and not is_library),
        ("texts", "calls", has_calls and not is_library),
        ("targets", "calls or --library", has_calls or is_library),
    ):
        if getattr(arguments, name) and not fits:
            raise InvalidValue(f"package: --{name} has no use here", f"it belongs to {needs}",
                               "leave it out")  # fmt: skip
    if (arguments.file or "").endswith((")", ".whl")):
        raise InvalidValue(f"package: the file is {arguments.file!r:.80}",
                           "this reads as a call, or as a wheel, which would be overwritten",
                           _FORM)  # fmt: skip
    if is_library and has_calls:
        raise InvalidValue("package --library: there are calls", "it builds those of a list",
                           "write them to a file, a line each, and pass --list FILE")  # fmt: skip
    if not is_library and not arguments.file:
        raise InvalidValue("package: there is no file", "it is read, or written where calls follow",
                           _FORM)  # fmt: skip
