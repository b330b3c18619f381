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

from importlib.util import find_spec
from typing import Any

from pto.aten.choice import chosen, on_change, restrict
from pto.aten.enabling import Enabled, enable
from pto.aten.face import Family, Overload, explain, family
from pto.aten.measuring import measure
from pto.aten.recording import Recording, record
from pto.aten.records import Argument, Record, library
from pto.aten.schemas import Differences, differences
from pto.aten.shadowing import load_call, shadow

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
    if namespace != "aten":
        return sorted(library().names(namespace))
    restricted = chosen()
    return sorted(restricted[1] if restricted else library().names())


def __getattr__(name: str) -> Any:
    # `from pto.aten import rows` asks here first, then imports the module.
    is_module = name.isidentifier() and find_spec(f"{__name__}.{name}")
    if name.startswith("__") or is_module:
        raise AttributeError(f"module 'pto.aten' has no attribute {name!r}")
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
