# SPDX-License-Identifier: Apache-2.0
"""Functions with STATIC sizes: one compiled function for each of their values.

    @pto.jit
    def f(x: pto.Tensor[pto.DYN, pto.STATIC]): ...    # x.shape[1] is a number while tracing

Thread safety: as of a jitted function.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

from pto.language.annotations import TensorType
from pto.language.arguments import bound_to
from pto.language.location import fail
from pto.language.tools import Tools


def _shape_of(value: Any) -> Any:
    """The sizes of an array, or of a type that stands for one; None for any other value."""
    return value.sizes if isinstance(value, TensorType) else getattr(value, "shape", None)


class PerSize(Tools):
    """A jitted function that is compiled for each value of its STATIC sizes."""

    def __init__(self, function: types.FunctionType, kinds: dict[str, TensorType],
                 make: Callable[[dict[str, TensorType]], Any]):  # fmt: skip
        import inspect  # slow to load: seldom needed

        self.kinds, self.make = kinds, make
        self.static = [name for name, kind in kinds.items() if kind.is_static]
        self.made: dict[tuple, Any] = {}
        self.signature = inspect.signature(function, follow_wrapped=False)
        self.constant_parameters = make(kinds).constant_parameters
        functools.update_wrapper(self, function)

    def of(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled function for these arguments."""
        given = bound_to(self, self.signature, args, kwargs).arguments
        shapes = {name: tuple(shape) for name in self.kinds
                  if (shape := _shape_of(given.get(name))) is not None}  # fmt: skip
        kinds = {name: kind.with_sizes(name, shapes[name]) if name in shapes else kind
                 for name, kind in self.kinds.items()}  # fmt: skip
        key = tuple(kinds[name].sizes for name in self.static)
        if key not in self.made:
            self.made[key] = self.make(kinds)
        return self.made[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.of(*args, **kwargs)(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.__qualname__  # by name, as a Python function

    def __repr__(self) -> str:
        return f"<pto.jit per size {self.__name__}>"

    def plain(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
        return self.of(*args, **kwargs).plain(args, kwargs)

    def package(self, path: Any, *examples: Any, texts: bool = False) -> None:
        """Saves the function compiled for such calls, which have equal STATIC sizes."""
        from pto.language.package import calls_of  # seldom needed

        self.jit_of(calls_of(self.__name__, examples)).package(path, *examples, texts=texts)

    def jit_of(self, calls: list[tuple[tuple, dict]]) -> Any:
        """The function that is compiled for such calls."""
        found = {id(one): one for one in (self.of(*args, **kwargs) for args, kwargs in calls)}
        if len(found) > 1:
            fail(f"{self.__name__}.package: the examples have {len(found)} sets of STATIC sizes",
                 "these are numbers while the function is traced, and a package has one of each",
                 "save a file for each, or annotate them with pto.DYN")  # fmt: skip
        return next(iter(found.values())).jit_of(calls)

    def warm(self, *args: Any, **kwargs: Any) -> "PerSize":
        """Prepares calls with such arguments without running one."""
        self.of(*args, **kwargs).warm(*args, **kwargs)
        return self
