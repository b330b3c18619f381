# SPDX-License-Identifier: Apache-2.0
"""ATen's operators, every one that the installed PyTorch has, on arrays of any kind.

    import numpy as np, pto
    y = pto.aten.add(x, z, alpha=2)                 # NumPy, PyTorch or DLPack arrays
    pto.aten.sort(x, dim=0, descending=True, out=(values, indices))
    q, r = pto.aten.linalg_qr(np.eye(3))
    pto.aten.add.Tensor.slots("cpu")                # [0 tile, 8 aten]
    print(pto.aten.explain("softmax.int", x, -1))
    pto.aten.family("torchvision::nms")             # of an extension that the process has loaded

Names are those of PyTorch's schemas; a call chooses the overload that fits. All arrays of a call
are of one kind, and its results are of that kind. Without PyTorch the first use raises Failure,
which says what to install. Thread safety: any thread may call.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pto.aten.choice import chosen, on_change, restrict

if TYPE_CHECKING:
    from pto.aten.enabling import Enabled, enable
    from pto.aten.face import Family, Overload, explain, family
    from pto.aten.measuring import measure
    from pto.aten.recording import Recording, record
    from pto.aten.records import Argument, Record
    from pto.aten.schemas import Differences, differences
    from pto.aten.shadowing import load_call, shadow

_HOMES = {  # the module of a name, loaded at its first use: compiled models need the rows alone
    **dict.fromkeys(("Enabled", "enable"), "enabling"),
    **dict.fromkeys(("Family", "Overload", "explain", "family"), "face"),
    "measure": "measuring",
    **dict.fromkeys(("Recording", "record"), "recording"),
    **dict.fromkeys(("Argument", "Record"), "records"),
    **dict.fromkeys(("Differences", "differences"), "schemas"),
    **dict.fromkeys(("load_call", "shadow"), "shadowing"),
}

__all__ = [
    "Argument",
    "Differences",
    "Enabled",
    "Family",
    "Overload",
    "Record",
    "Recording",
    "differences",
    "enable",
    "explain",
    "family",
    "load_call",
    "measure",
    "names",
    "record",
    "restrict",
    "shadow",
]


def names(namespace: str = "aten") -> list[str]:
    """The names of all operators that are there, without their overloads.

    `namespace` is that of an extension which the process has loaded: names("torchvision") has
    "torchvision::nms", which family() finds.
    """
    from pto.aten.records import library

    if namespace != "aten":
        return sorted(library().names(namespace))
    restricted = chosen()
    return sorted(restricted[1] if restricted else library().names())


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = globals()[name] = getattr(import_module(f"pto.aten.{_HOMES[name]}"), name)
        return found
    if name.startswith("__"):
        raise AttributeError(f"module 'pto.aten' has no attribute {name!r}")
    if name.isidentifier() and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    from pto.aten.face import family

    found = globals()[name] = family(name)  # Python finds it by itself from now on
    _found.append(name)
    return found


_found: list[str] = []


def _forget() -> None:
    while _found:
        globals().pop(_found.pop(), None)


on_change.append(_forget)


def __dir__() -> list[str]:
    return sorted({*__all__, *names()})
