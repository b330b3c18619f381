# SPDX-License-Identifier: Apache-2.0
"""The frameworks of the matrix of modes, in the order of its page."""

from collections.abc import Iterable

from pto.errors import InvalidType, InvalidValue
from pto.language.location import describe
from pto.testing.cases import Case
from pto.testing.framework import Framework, Skipped
from pto.testing.with_jax import Jax
from pto.testing.with_mindspore import MindSpore
from pto.testing.with_onnxruntime import OnnxRuntime
from pto.testing.with_tensorflow import TensorFlow
from pto.testing.with_torch import Npu, PyTorch


class NumPy(Framework):
    name, module = "NumPy", "numpy"

    def eager(self, case: Case) -> list:
        return case.results()

    modes = {"eager": eager, "threads": Framework.threads}
    full = ("eager",)


FRAMEWORKS = (NumPy, PyTorch, Npu, Jax, TensorFlow, OnnxRuntime, MindSpore)


def chosen(names: str | Iterable[str] | None) -> list[type[Framework]]:
    """The installed frameworks, or those named; InvalidValue for one that is not here."""
    if names is None:
        return [kind for kind in FRAMEWORKS if kind.is_installed()]
    if not isinstance(names, str | Iterable):
        raise InvalidType(f"check: frameworks is {describe(names)}", "it names some",
                          'pass a list of names, such as ["NumPy", "torch"]')  # fmt: skip
    found = {_named(name) for name in ([names] if isinstance(names, str) else names)}
    return [kind for kind in FRAMEWORKS if kind in found]


def _named(name: object) -> type[Framework]:
    known = {key.lower(): kind for kind in reversed(FRAMEWORKS) for key in (kind.module, kind.name)}
    known["npu"] = Npu
    kind = known.get(name.lower()) if isinstance(name, str) else None
    if kind is None:
        names = ", ".join(f"{kind.name} ({_import_name(kind)})" for kind in FRAMEWORKS)
        raise InvalidValue(f"check: {describe(name)} names no framework", f"they are {names}",
                           "correct the name")  # fmt: skip
    if not kind.is_installed():
        here = ", ".join(one.name for one in FRAMEWORKS if one.is_installed())
        raise InvalidValue(f"check: the framework {name!r} is not installed",
                           f"this machine has {here}", "name some of these")  # fmt: skip
    return kind


def _import_name(kind: type[Framework]) -> str:
    return "npu" if kind is Npu else kind.module


__all__ = ["FRAMEWORKS", "Skipped", "chosen"]
