# SPDX-License-Identifier: Apache-2.0
"""ATen beside our kernels: the first call that leaves its tolerance, with its arguments in a file.

    with pto.aten.shadow(["exp", "add"]) as seen:        # names; none: every name
        model(x)
    seen.calls, seen.first                   # 120, None or Departure("exp", 3.2, 2, "...npz")
    overload, values = pto.aten.load_call(seen.first.file)
    overload(**values, slot=0)

A shadow makes each call of pto.aten, and of PyTorch in pto.aten.enable(), that one of our slots
runs a second time by ATen, on copies; the caller gets our results. A warning names the first call
that is too far from ATen. The file is NumPy's .npz: loading it runs no code. Thread safety: a
shadow sees the calls of its own thread.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pto.aten.binding import Bound
from pto.aten.distance import apart
from pto.aten.face import Overload, family
from pto.aten.implementations import ATEN, Implementation, Observer, observed
from pto.aten.records import library, listed
from pto.aten.rows import row_of
from pto.errors import InvalidValue, MissingFile

_DESCRIPTION = "call"  # the member of the file that is no array


@dataclass(frozen=True)
class Departure:
    """A call that is too far from ATen, and the file with its arguments, "" where none is written.

    `distance` and `tolerance` count units of the last place; a text says what else differs.
    """

    overload: str
    distance: float | str
    tolerance: float
    file: str


@dataclass
class Shadow(Observer):
    """`calls` counts the calls that were made twice; `first` is the first that left its tolerance.

    After `first` calls are made once.
    """

    names: frozenset[str]
    tolerance: float | None
    folder: Path
    calls: int = 0
    first: Departure | None = field(default=None)

    def run(self, one: Implementation, bound: Bound, like: Any) -> Any:
        """Runs the implementation, and ATen where the name is asked for."""
        record = bound.record
        row = row_of(record.full_name)
        known = {record.name, record.name.removesuffix("_"), record.full_name}
        is_asked = not self.names or known & self.names
        if one.slot == ATEN or row is None or not is_asked or self.first is not None:
            return super().run(one, bound, like)
        before = {name: _copy(value) for name, value in bound.values.items()}
        made = super().run(one, bound, like)
        again = {name: _copy(value) for name, value in before.items()}
        self.calls += 1
        found = apart(row, before, made, library().call(record, again, like))
        tolerance = row.ulp if self.tolerance is None else self.tolerance
        if isinstance(found, str) or found > tolerance:
            file, told = self._saved(record.full_name, before)
            self.first = Departure(record.full_name, found, tolerance, file)
            warnings.warn(
                f"{record.full_name} is {found} from ATen's result, {tolerance} is its tolerance;"
                f" {told}",
                stacklevel=5,
            )
        return made

    def _saved(self, full_name: str, values: dict[str, Any]) -> tuple[str, str]:
        """A new file with the arguments, "" where it cannot be written, and a text about it."""
        file = ""
        try:
            descriptor, file = tempfile.mkstemp(".npz", f"{full_name}_", self.folder)
            os.close(descriptor)
            save_call(file, full_name, values)
        except OSError as error:
            if file:
                os.unlink(file)  # a part of it may be there
            return "", f"its arguments are not saved: {error}"
        return file, f"pto.aten.load_call({file!r}) has its arguments"


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return library().copied(value) if library().dense_type(value) is not None else value


@contextmanager
def shadow(
    names: Sequence[str] = (), tolerance: float | None = None, folder: str | os.PathLike = ""
) -> Iterator[Shadow]:
    """Runs ATen beside our kernels in the block, for these names or overloads, or for all.

    `tolerance` counts units of the last place; without one each row's own `ulp` counts. The
    arguments of the first call that leaves it go to a file in `folder`, by default that of
    temporary files. Raises UnknownAttribute for an unknown name, InvalidValue for a negative
    tolerance, MissingFile for a folder that does not exist.
    """
    names = listed(names)
    for name in names:
        family(name.partition(".")[0])
    is_number = isinstance(tolerance, int | float)
    if tolerance is not None and not (is_number and tolerance >= 0):
        raise InvalidValue(
            f"shadow: tolerance is {tolerance!r}",
            "it counts units of the last place",
            "pass 0 or more, or leave it out for each row's own",
        )
    place = Path(folder) if folder else Path(tempfile.gettempdir())
    if not place.is_dir():
        raise MissingFile(
            f"shadow: folder is {place}", "there is no such folder", "make it, or leave folder out"
        )
    seen = Shadow(frozenset(names), tolerance, place)
    with observed(seen):
        yield seen


def save_call(file: str | os.PathLike, full_name: str, values: dict[str, Any]) -> None:
    """Writes the arguments of a call of an overload to an .npz file. Raises OSError."""
    arrays: dict[str, np.ndarray] = {}
    plain: dict[str, Any] = {}
    for name, value in values.items():
        several = value if isinstance(value, list) else [value]
        if not any(library().dense_type(one) is not None for one in several):
            is_plain = isinstance(value, bool | int | float | str | list | None)
            plain[name] = value if is_plain else str(value).removeprefix("torch.")
            continue
        for place, one in enumerate(several):
            array = library().as_numpy(one)
            key = f"{name}:{place if isinstance(value, list) else ''}:{array.dtype.name}"
            arrays[key] = _storable(array)
    text = json.dumps({"overload": full_name, "values": plain})
    np.savez(file, **arrays, **{_DESCRIPTION: np.array(text)})


def _storable(array: np.ndarray) -> np.ndarray:
    """The array as a type that NumPy stores: bf16 as the integers of its bits."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def load_call(file: str | os.PathLike) -> tuple[Overload, dict[str, Any]]:
    """The overload and the arguments of a saved call, with arrays of NumPy. Raises MissingFile."""
    if not Path(file).exists():
        raise MissingFile(
            f"the saved call {file}", "there is no such file", "pass the file of a Departure"
        )
    with np.load(file, allow_pickle=False) as stored:
        described = json.loads(str(stored[_DESCRIPTION]))
        values, lists = dict(described["values"]), {}
        for key in (one for one in stored.files if one != _DESCRIPTION):
            name, place, kind = key.split(":")
            array = stored[key]
            if kind == "bfloat16":
                import ml_dtypes

                array = array.view(ml_dtypes.bfloat16)
            if place:
                lists.setdefault(name, {})[int(place)] = array
            else:
                values[name] = array
    for name, several in lists.items():
        values[name] = [several[i] for i in sorted(several)]
    name, _, variant = described["overload"].partition(".")
    return family(name).overloads[variant or "default"], values
