# SPDX-License-Identifier: Apache-2.0
"""The package pypto of compat/ for tests, and programs that import it."""

import importlib
import importlib.util
import sys

import pytest

from pto import build_config


@pytest.fixture(scope="module")
def pypto():
    """The package, importable while a module of tests runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(build_config.compat_dir())
        yield importlib.import_module("pypto")
    for name in ("pypto", "pypto.frontend", "pypto.experimental"):
        sys.modules.pop(name, None)


def loaded(tmp_path, text):
    """The module of a program's text."""
    path = tmp_path / "program_of_a_user.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # Bytecode counts as new if a file's size and its second of change are those of before.
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module
