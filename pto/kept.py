# SPDX-License-Identifier: Apache-2.0
"""Properties that an object computes once, without functools.cached_property's lock.

    class Promise:
        @kept
        def order(self): ...

Before Python 3.12 functools.cached_property has one lock for all objects of a class: a child of
fork() waits for it forever where another thread of its parent was computing the property.

Thread safety: any thread may ask; two that ask first may both compute, and one value stays.
"""

from collections.abc import Callable
from typing import Any


class kept:
    """A property whose value stands in the object's __dict__ once it is computed."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, one: Any, kind: type) -> Any:
        if one is None:
            return self
        value = vars(one)[self.compute.__name__] = self.compute(one)
        return value
