# SPDX-License-Identifier: Apache-2.0
"""The options of torch.compile(model, backend="pto", options={...}), checked."""

import pathlib
from dataclasses import dataclass, fields
from typing import Any

from pto.errors import InvalidValue

CHOICES = {
    "precision": ("f32", "bf16"),
    "bits": ("fixed", "free"),
    "fallback": ("aten", "error"),
    "weights": ("checked", "hashed", "trusted"),
}
MODES = (None, "default", "reduce-overhead")


@dataclass(frozen=True)
class Options:
    """The options of one torch.compile(); docs/compile.md explains each."""

    precision: str = "f32"
    bits: str = "fixed"
    fallback: str = "aten"
    weights: str = "checked"
    dump: str | None = None


def checked(given: dict[str, Any] | None, mode: str | None) -> Options:
    """The options of a call. Raises InvalidValue with the list of those that exist."""
    given = dict(given or {})
    known = [field.name for field in fields(Options)]
    for name, value in given.items():
        if name not in known:
            _fail(f"the backend pto has no option {name!r}", f"its options are {', '.join(known)}",
                  "name one of these")  # fmt: skip
        allowed = CHOICES.get(name)
        if allowed is not None and value not in allowed:
            _fail(f"the option {name} of the backend pto is {value!r}",
                  f"it is one of {', '.join(map(repr, allowed))}", "pass one of these")  # fmt: skip
    dump = given.get("dump")
    if dump is not None and not isinstance(dump, str | pathlib.Path):
        _fail(f"the option dump of the backend pto is {dump!r}", "it is a folder for texts",
              "pass a path")  # fmt: skip
    if dump:
        try:
            pathlib.Path(dump).mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # a file, no right; a NUL in the name
            _fail(f"the option dump of the backend pto is {str(dump)!r}: {error}",
                  "it is a folder for texts, made where it is missing",
                  "pass the path of a folder that can be written")  # fmt: skip
    if mode not in MODES:
        _fail(f"the backend pto has no mode {mode!r}",
              "its modes are 'default' and 'reduce-overhead', which mean the same",
              "leave mode out, or choose by options={...}")  # fmt: skip
    return Options(**(given | ({} if dump is None else {"dump": str(dump)})))


def _fail(what: str, why: str, fix: str) -> None:
    raise InvalidValue(f"torch.compile: {what}", why, fix)
