# SPDX-License-Identifier: Apache-2.0
"""Errors: every mistake of a user says what happened, why it is one, and how to fix it.

Each class is also the built-in exception that a caller would expect, so that both
`except pto.Error` and `except ValueError` work.
"""

import os
from collections.abc import Iterable


def working_folder() -> str:
    """The current folder; "" where it was deleted, which is no reason to fail."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def working_folder_name() -> str:
    """The last name of the current folder, for messages."""
    folder = working_folder()
    return os.path.basename(folder) or os.sep if folder else "deleted"


class Error(Exception):
    """A mistake in a program or in its arguments.

    `what`, `why` and `fix` are its sentences; `location` is the line at fault, "file.py:12", or "".
    """

    def __init__(self, what: str, why: str = "", fix: str = "", location: str = ""):
        super().__init__(what, why, fix, location)
        self.what, self.why, self.fix, self.location = what, why, fix, location

    def __str__(self) -> str:
        text = f"{self.location}: {self.what}" if self.location else self.what
        text += f"\n  why: {self.why}" if self.why else ""
        return text + (f"\n  fix: {self.fix}" if self.fix else "")


class InvalidValue(Error, ValueError):
    """Shapes, sizes, or values that do not fit."""


class InvalidType(Error, TypeError):
    """Element types or kinds of argument that do not fit."""


class TracedCondition(InvalidType):
    """A condition over values that are not known yet; `is_new` where another tracing may help."""

    is_new = False


class InvalidIndex(Error, IndexError):
    """An axis or an index that does not exist."""


class Failure(Error, RuntimeError):
    """Something outside the program failed: the compiler, the disk, memory."""


class TaskFailure(Failure):
    """A task of a run failed; `cause` is its text, `task` 0 where the run itself was stopped.

    `name` is the kernel's, `site` the line of the submission, `device` the place of its device
    among the runtime's, -1 where there is none, `signal` what ended its worker process, or 0.
    """

    task, name, site, device, signal, cause = 0, "", "", -1, 0, ""


class UnknownName(Error, KeyError):
    """A name that nothing was registered under."""


class UnknownAttribute(Error, AttributeError):
    """A name that a module or an object does not have."""


class MissingFile(Error, FileNotFoundError):
    """A file that does not exist."""


class InvalidPosition(Failure, InvalidIndex):
    """A position that does not exist, which a call found among its data."""


# In the order of pto::ErrorKind.
BY_KIND = (InvalidValue, InvalidType, InvalidIndex, Failure, InvalidPosition)
_MOST_LISTED = 64  # names in a sentence


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence for an unknown name: the known one that is spelled most like it, or all if few."""
    import difflib  # costs more than all of this package's start

    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1, 0.7)
    if close:
        return f"did you mean {close[0]}?"
    if len(names) > _MOST_LISTED:
        return f"none of the {len(names)} known names is spelled alike"
    return f"the known names are {', '.join(names)}" if names else "no name is known"


def unknown_attribute(owner: str, name: str, known: Iterable[str], why: str = "") -> AttributeError:
    """The error for a name that `owner`, spelled as in a program, does not have. Names with a first
    underscore are asked for by Python and libraries, again and again: no advice is looked for."""
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    return UnknownAttribute(
        f"{owner} has no {name}",
        why or nearest(name, [one for one in known if not one.startswith("_")]),
        f"dir({owner}) lists its names",
    )
