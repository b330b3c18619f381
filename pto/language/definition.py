# SPDX-License-Identifier: Apache-2.0
"""Checks which members the class under @op has, and words what is wrong with others."""

from typing import TYPE_CHECKING, Any

from pto.errors import InvalidType, InvalidValue, nearest
from pto.language.location import describe
from pto.language.native_kernel import NativeKernel

# The members that a class of an operator may define; see op.py. Names with _ are its own.
MEMBERS = {
    *("build", "infer", "grad", "gradient", "saved", "wanted", "kernel", "work", "oracle"),
    *("tolerance", "samples", "vectors", "types", "inplace", "bounded", "autocast", "packing"),
    *("others", "constants", "linear"),
}
_TAKES_ANY = 4  # the flag of code with *args
AUTOCAST = {None: 0, "low": 1, "f32": 2}  # as abi/operator.h numbers them

_Base: Any = Any if TYPE_CHECKING else object


class Definition(_Base):
    """A base that the class under @op may have, for type checkers; to pto it changes nothing.

        @op("damped(Tensor x, *, float factor=0.5) -> Tensor")
        class Damped(pto.Definition):
            def grad(ctx, d_result): return {"x": d_result * ctx.attribute("factor")}

    With it they take `ctx` and `x` for what they are, not for an object of the class, and know that
    Damped(x, factor=2.0) is a call of the operator.
    """


def check_schema(schema: object, types: object) -> None:
    """Raises InvalidType where @op is given anything but texts."""
    if not isinstance(schema, str) or not isinstance(types, str):
        raise InvalidType(
            f"@op: the schema is {describe(schema)}",
            "the schema is text: a name, the arguments, the results",
            'write it as in @op("scale(Tensor x, float factor) -> Tensor")',
        )


def check_is_class(definition: object) -> None:
    """Raises InvalidType where @op decorates anything but a class."""
    if not isinstance(definition, type):
        raise InvalidType(
            f"@op decorates {describe(definition)}",
            "an operator is a class: build, grad and oracle are its functions",
            "write class Name: below it",
        )


def check_definition(operator: Any) -> None:
    """Raises InvalidType or InvalidValue where members of the class are unknown or do not fit."""
    kernel, build = operator.member("kernel"), operator.member("build")
    name = operator.definition.__name__
    for member in vars(operator.definition):
        if not member.startswith("_") and member not in MEMBERS:
            raise InvalidType(
                f"{operator.name}: the class {name} has an unknown member {member}",
                nearest(member, MEMBERS),
                f"correct its name; a member for the class itself has a name such as _{member}",
            )
    if kernel is None and build is None:
        raise InvalidType(
            f"{operator.name}: the class {name} has no build",
            "build says what the operator computes",
            f"add: def build({', '.join(a.name for a in operator.arguments)})",
        )
    if kernel is not None and not (
        isinstance(kernel, NativeKernel) and operator.member("infer") and build is None
    ):
        raise InvalidType(
            f"{operator.name}: the class {name} needs a cpp_kernel(), an infer and no build",
            "a hand-written kernel replaces build, and infer gives the shapes of its results",
            "write kernel = cpp_kernel(...) and def infer(...), and remove build",
        )
    _check_functions(operator)
    _check_constants(operator)
    if (autocast := operator.member("autocast")) not in AUTOCAST:
        raise InvalidValue(
            f"{operator.name}: autocast is {autocast!r}",
            "autocast says what a region of mixed precision does with the arguments",
            "write 'low', 'f32', or leave it out for the widest type among them",
        )


def _check_functions(operator: Any) -> None:
    """Functions of the class take the arguments of the schema, or of `grad`, in their order."""
    of_grad = ["ctx", *(f"d_{name}" for name in operator.differentiable)]
    of_schema = [a.name for a in operator.arguments]
    for name in ("build", "infer", "work", "grad"):
        function = operator.member(name)
        if name == "grad" and function == "automatic":
            continue
        if found := misfit(name, function, of_grad if name == "grad" else of_schema):
            what, why, fix = found
            fix += ", or grad = 'automatic'" if name == "grad" else ""
            raise InvalidType(f"{operator.name}: {what}", why, fix)


def misfit(name: str, function: Any, takes: list[str]) -> tuple[str, str, str] | None:
    """The error of a member that is no function of these values by place; None where there is none.

    It does without `inspect`, which loads slowly.
    """
    code, what = getattr(function, "__code__", None), ""
    if function is not None and not callable(function):
        what = f"{name} is {describe(function)}, which is no function"
    elif code is not None and not code.co_flags & _TAKES_ANY:
        names = [*code.co_varnames[hasattr(function, "__self__") : code.co_argcount]]
        fits = len(names) - len(function.__defaults__ or ()) <= len(takes) <= len(names)
        what = "" if fits else f"{name} does not take {len(takes)} values"
        if names != takes and sorted(names) == sorted(takes):
            what = f"{name} takes these values in another order: ({', '.join(names)})"
    given = ", ".join(takes)
    return (what, f"it is called with ({given})", f"write def {name}({given})") if what else None


def _check_constants(operator: Any) -> None:
    """Constants are tensors that stay as they are from call to call."""
    may = [a.name for a in operator.arguments if a.kind == "Tensor" and not a.mutable]
    for name in operator.member("constants") or ():
        if name not in may:
            raise InvalidValue(
                f"{operator.name}: constants names {name!r:.60}",
                "a constant is a tensor argument that no call writes: a weight",
                f"name some of {', '.join(may)}",
            )
