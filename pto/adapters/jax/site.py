# SPDX-License-Identifier: Apache-2.0
"""Site: a call without its arrays, which are its operands, in one list.

    site, operands = Site.of(record, values)       # values in schema order
    outputs = site.call(operands)                  # in one list
    site.nested(outputs, operands)                 # as the caller gets them

The operands are the tensors, those of lists one after another, then the traced float attributes.
Errors: InvalidType for arrays and numbers that no kernel takes. Thread safety: a Site is immutable.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import jax
from jax import numpy as jnp
from pto import _core
from pto.adapters.jax.sizes import Sizes
from pto.adapters.record import Argument, Record
from pto.errors import InvalidType, InvalidValue

TARGET = "pto_xla_call"  # the handler's name, in libpto_jax.so and among XLA's targets

# Maps JAX's element types to our names and back.
DTYPE_NAMES = {row.numpy: row.name for row in _core.dtypes()}
DTYPES = {ours: jnp.dtype(theirs) for theirs, ours in DTYPE_NAMES.items()}
OPERAND = object()  # stands for an attribute that is an operand
_STATIC = (bool, int, float, str)  # attributes that the call site holds


def _checked(record: Record, argument: Argument, value: Any) -> Any:
    """The value, if it can be a tensor argument; else raises InvalidType."""
    name = argument.name
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "shape"):
        raise InvalidType(
            f"{record.name}: {name} is of type {type(value).__name__}",
            f"the signature is {record.schema}",
            "pass an array, jax.numpy.asarray(value) for a number",
        )
    if str(dtype) not in DTYPE_NAMES:
        allowed = record.types[argument.type]
        raise InvalidType(
            f"{record.name}: {name} has the dtype {dtype}",
            f"it takes {', '.join(k for k, ours in DTYPE_NAMES.items() if ours in allowed)}",
            f"convert it first: {name}.astype(jax.numpy.{DTYPES[record.suggested(argument)]})",
        )
    return value


def refuse_bounded(record: Record) -> None:
    """Raises InvalidType for an operator with results of unknown sizes, which JAX lacks."""
    if not record.is_bounded:
        return
    padded = "a function of jax.numpy"
    if hasattr(jnp, record.name):
        padded = f"jax.numpy.{record.name}"
    raise InvalidType(
        f"{record.name}: the size of its result is known only after it ran",
        "JAX gives arrays their sizes before a program runs",
        f"call {padded} with size=, which pads the result, or call the operator on "
        "numpy.asarray(x), outside of jit",
    )


def _number(record: Record, name: str, value: Any) -> jax.Array:
    """A traced float attribute, as the kernels take it."""
    if jnp.shape(value) or jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise InvalidType(
            f"{record.name}: {name} is {value.dtype}{list(jnp.shape(value))}",
            "a float attribute is one real number",
            "pass a float, or an array of rank 0 and a real dtype",
        )
    return value.astype(jnp.float64 if jax.config.jax_enable_x64 else jnp.float32)


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which a call site holds whatever its type was."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Site:
    """A call of an operator, without its operands."""

    record: Record
    counts: tuple[int, ...]  # of each tensor argument: how many of the operands are its tensors
    attributes: tuple[Any, ...]  # in schema order; OPERAND where it is one

    @staticmethod
    def of(record: Record, values: list[Any]) -> "tuple[Site, list[jax.Array]]":
        """The site and the operands of a call with these values, in schema order."""
        counts, attributes, tensors, numbers = [], [], [], []
        for argument, value in zip(record.arguments, values, strict=True):
            if argument.is_tensor:
                found = value if argument.kind == "Tensor[]" else [value]
                given = [_checked(record, argument, v) for v in found or [] if v is not None]
                counts.append(len(given))
                tensors += given
            elif argument.kind == "float" and isinstance(value, jax.Array):
                numbers.append(_number(record, argument.name, value))
                attributes.append(OPERAND)
            else:
                attributes.append(_plain(value))
        return Site(record, tuple(counts), tuple(attributes)), tensors + numbers

    @property
    def n_tensors(self) -> int:
        return sum(self.counts)

    def by_argument(self, operands: Any) -> Iterator[tuple[Argument, Any]]:
        """(argument, value) in schema order; of a tensor argument the list of its tensors."""
        tensors = iter(operands[: self.n_tensors])
        numbers = iter(operands[self.n_tensors :])
        counts, attributes = iter(self.counts), iter(self.attributes)
        for argument in self.record.arguments:
            if argument.is_tensor:
                yield argument, list(itertools.islice(tensors, next(counts)))
            else:
                value = next(attributes)
                yield argument, next(numbers) if value is OPERAND else value

    def outputs(self, operands: Any) -> list[Any]:
        """dtype and shape of each output, a list of them for a list."""
        tensors = operands[: self.n_tensors]
        kinds = [(DTYPE_NAMES[str(t.dtype)], len(t.shape)) for t in tensors]
        symbols = [size for t in tensors for size in t.shape]
        attributes = [0.0 if a is OPERAND else a for a in self.attributes]
        shapes = self.record.shapes(self.record.by_argument(self.counts, kinds), attributes)
        symbols += self.record.sizes_among(attributes)
        made = shapes.evaluate(symbols, Sizes(self.record.name))
        return [[self._struct(x) for x in m] if isinstance(m, list) else self._struct(m)
                for m in made]  # fmt: skip

    def _struct(self, about: tuple[str, tuple]) -> jax.ShapeDtypeStruct:
        kind, shape = about
        dtype = DTYPES[kind]
        if any(isinstance(size, int) and size < 0 for size in shape):
            raise InvalidValue(
                f"{self.record.name}: a result would have the shape {list(shape)}",
                "sizes are at least 0",
                "pass sizes whose results have none below 0",
            )
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise InvalidType(
                f"{self.record.name}: a result is {dtype}, which JAX has switched off",
                "without jax_enable_x64 JAX has no 64-bit types, and the result would be wrong",
                "call jax.config.update('jax_enable_x64', True) at the start",
            )
        return jax.ShapeDtypeStruct(shape, dtype)

    def nested(self, flat: Any, operands: Any) -> Any:
        """Outputs in one list as the caller gets them: one, or a tuple; a list for a list."""
        rest = iter(flat)
        results = tuple(
            [next(rest) for _ in made] if isinstance(made, list) else next(rest)
            for made in self.outputs(operands)
        )
        return results[0] if len(results) == 1 else results

    def call(self, operands: Any) -> tuple[jax.Array, ...]:
        """The outputs in one list, by XLA's custom call."""
        placed = _placed(operands[0]) if operands else {}
        made = [o for m in self.outputs(operands) for o in (m if isinstance(m, list) else [m])]
        made = [jax.ShapeDtypeStruct(o.shape, o.dtype, **placed) for o in made]
        passed, named = list(operands[: self.n_tensors]), {}
        places = []
        for argument, value in self.by_argument(operands):
            if argument.is_tensor or value is None:
                continue
            if isinstance(value, _STATIC):
                named[argument.name] = value
            elif isinstance(value, tuple | list):
                named[argument.name] = np.array(value, np.int64)
            else:
                places.append(self.record.attributes.index(argument))
                passed.append(jnp.asarray(value))  # of a symbolic size the number
        named |= {"pto.op": self.record.name, "pto.index": self.record.index}
        if any(n != 1 for n in self.counts):
            named["pto.counts"] = np.array(self.counts, np.int64)
        if places:
            named["pto.operands"] = np.array(places, np.int64)
        return tuple(jax.ffi.ffi_call(TARGET, made)(*passed, **named))


def alike(operands: list[jax.Array]) -> list[jax.Array]:
    """Inside shard_map, makes all operands vary over the axes over which one of them varies.

    Not for use inside the rule for gradients: JAX sums the gradient of an operand that is cast here
    over those axes.
    """
    axes = {a for o in operands for a in jax.typeof(o).manual_axis_type.varying}
    missing = [tuple(axes - jax.typeof(o).manual_axis_type.varying) for o in operands]
    return [jax.lax.pcast(o, m, to="varying") for o, m in zip(operands, missing, strict=True)]


def _placed(operand: jax.Array) -> dict[str, Any]:
    """The properties that results share with operands that are alike."""
    like = jax.typeof(operand)
    if not like.manual_axis_type.varying:
        return {}
    return {
        "manual_axis_type": like.manual_axis_type,
        "sharding": jax.NamedSharding(like.sharding.mesh, jax.sharding.PartitionSpec()),
    }
