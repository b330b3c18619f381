# SPDX-License-Identifier: Apache-2.0
"""The types of calls of jitted functions, for type checkers and completion.

    @pto.jit
    def scale(x: pto.Tensor, factor: float = 2.0) -> pto.Tensor: ...

    scale(numpy.ones(4), factor=3.0)    # checked: names, how many arguments, the type of factor

A call has the parameters of the function. One that is annotated `pto.Tensor` takes anything, since
arrays of every library stand in its place; inside the function it is checked as a traced tensor.
The result is of any type: that of the arrays.
"""

from typing import TYPE_CHECKING, Any, Concatenate, Generic, overload

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from pto.language.jit import Jit

    Parameters = ParamSpec("Parameters", default=...)  # so that `pto.Jit` alone is a type
    Rest = ParamSpec("Rest")
else:
    from typing import ParamSpec

    Parameters = ParamSpec("Parameters")


class TypedCall(Generic[Parameters]):
    """A base that says how a jitted function is called; it adds nothing to the call itself."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Any: ...
        @overload
        def __call__(self, *args: Any, out: Any, **kwargs: Any) -> Any: ...
        @overload
        def __get__(self, instance: None, owner: type | None = None) -> "Jit[Parameters]": ...
        @overload
        def __get__(
            self: "TypedCall[Concatenate[Any, Rest]]", instance: object, owner: type | None = None
        ) -> "Jit[Rest]": ...
