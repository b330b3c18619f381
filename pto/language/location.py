# SPDX-License-Identifier: Apache-2.0
"""Finds the user's line: the one for which a node stands, and the one that an error names."""

import os
import sys
import warnings
from types import TracebackType
from typing import NoReturn

from pto.errors import Error, InvalidValue, working_folder

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(_HERE)) + os.sep
_spellings: tuple[str, ...] = ()  # folders whose lines stand for those that call them
_COPY = f"{os.sep}__autograph_generated_file"  # of TensorFlow, of a user's function
_FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "onnxruntime", "mindspore")


def also_ours(folder: str) -> None:
    """Lets errors and nodes pass over the lines of a folder that spells the language in its way."""
    global _spellings
    _spellings = tuple({*_spellings, folder.rstrip(os.sep) + os.sep})


def traced_line() -> tuple[str, int]:
    """File and line of the innermost frame outside this folder: what a node stands for."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, *_spellings)):
        frame = frame.f_back
    return shown(frame.f_code.co_filename), frame.f_lineno


def user_line() -> str:
    """The innermost line that is no framework's and not ours, "file.py:12": where the mistake is.

    "" where there is none: a framework called from a thread of its own.
    """
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def is_users(file: str) -> bool:
    """Says whether a file is neither ours, as "<pto.NAME>" is, nor a framework's."""
    loaded = [getattr(sys.modules.get(name), "__file__", None) for name in _FRAMEWORKS]
    theirs = [os.path.dirname(one) + os.sep for one in loaded if one]
    return not file.startswith((_OURS, "<pto.", *_spellings, *theirs)) and _COPY not in file


def shown(file: str) -> str:
    """A path as errors and graphs show it: from the working folder, where it lies in there.

    Our own files begin with "<pto>": no error calls them the place of a user's mistake.
    """
    if file.startswith(_OURS):
        return f"<pto>/{file.removeprefix(_OURS)}"
    folder = working_folder()
    return file.removeprefix(folder + os.sep) if folder else file


def place_of(error: BaseException) -> tuple[str, int] | None:
    """The file and number of the user's innermost line through which an error passed, if any."""
    found, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        found = (file, trace.tb_lineno) if is_users(file) else found
        trace = trace.tb_next
    return found


def line_of(error: BaseException) -> str:
    """The line of place_of(), "file.py:12", or ""."""
    place = place_of(error)
    return f"{shown(place[0])}:{place[1]}" if place else ""


def without_our_frames(error: BaseException) -> BaseException:
    """The error, its traceback only of the user's lines."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(trace)


def fail(what: str, why: str, fix: str, kind: type[Error] = InvalidValue) -> NoReturn:
    """Raises an Error that names the user's line."""
    raise kind(what, why, fix, user_line())


def warn_at(line: str, text: str) -> None:
    """Warns of a line, "file.py:12"."""
    file, _, number = line.rpartition(":")
    warnings.warn_explicit(text, RuntimeWarning, file, int(number or 0))


def describe(value: object) -> str:
    """A value in an error message: its kind, and its text where that is short.

    A class with `described` says it itself.
    """
    if own := getattr(type(value), "described", None):
        return own(value)
    if value is None:
        return "None"
    if isinstance(value, bool | int | float | str):
        return f"the {type(value).__name__} {value!r}"[:60]
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"
