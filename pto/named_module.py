# SPDX-License-Identifier: Apache-2.0
"""Finds the module that a command names: by its name, or by its file, which runs.

    module_of("my_kernels.py", "package --of")     # or "my_package.kernels"

Thread safety: one thread at a time.
"""

import importlib.util
import os
import sys
import traceback
from typing import Any

from pto.errors import Error, InvalidValue, MissingFile, working_folder, working_folder_name
from pto.language.location import shown


def module_of(name: str, command: str) -> Any:
    """A module by its name, or the path of its file; errors begin with the words of the command."""
    try:
        return _module_of_file(name, command) if name.endswith(".py") else _imported(name, command)
    except Error:
        raise
    except (Exception, SystemExit) as error:  # its code may raise anything
        raise InvalidValue(
            f"{command} {name}: {traceback.format_exception_only(error)[-1].strip()}",
            "its code runs to the end, and then its functions are known",
            "pass a path ending in .py, or a name that import finds, of code that runs",
            _place(error, name),
        ) from None


def _module_of_file(name: str, command: str) -> Any:
    spec = importlib.util.spec_from_file_location("functions_of_command", name)
    if spec is None or spec.loader is None or not os.path.isfile(name):
        raise MissingFile(f"{command} {name}: there is no such file",
                          "it defines the functions of the calls",
                          f"check it; the working folder is {working_folder_name()}")  # fmt: skip
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _imported(name: str, command: str) -> Any:
    sys.path.insert(0, folder := working_folder())
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(folder)
    if getattr(module, "__file__", None) is None and name not in sys.builtin_module_names:
        raise InvalidValue(f"{command} {name}: it is a folder without __init__.py",
                           "it defines no function",
                           "name a module in it, as folder.module")  # fmt: skip
    return module


def _place(error: BaseException, name: str) -> str:
    """The line that an error is about, below the working folder or beside the file that ran; ""
    without one."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    folders = (working_folder(), os.path.join(working_folder(), os.path.dirname(name)))
    return next((f"{shown(one.filename)}:{one.lineno}" for one in reversed(frames)
                 if one.filename.startswith(folders)), "")  # fmt: skip
