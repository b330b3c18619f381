# SPDX-License-Identifier: Apache-2.0
"""`import pypto` for programs that say so: its names, each a function of OpenPTO's tile language.

    sys.path.append(pto.build_config.compat_dir())  # what `pto config --compat` prints
    import pypto

    @pypto.frontend.jit
    def double(x: pypto.Tensor([pypto.DYNAMIC, 64], pypto.DT_FP32), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 64)
        out[:] = x * 2

The language alone says what a name means: docs/language.md. Refused where the real package is
installed. Thread safety: as of the language.
"""

import contextlib
import enum
import importlib.machinery
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pto
from pto.errors import Failure, UnknownAttribute, nearest
from pto.language import Tensor as _Traced
from pto.language.annotations import TensorType
from pto.language.location import also_ours, fail, user_line
from pto.language.symbol import SymbolicScalar as _SymbolicScalar
from pto.language.trace import is_tracing

_HERE = Path(__file__).resolve().parent
_elsewhere = importlib.machinery.PathFinder.find_spec(
    __name__, [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE.parent]
)
if _elsewhere is not None and _elsewhere.origin is not None:  # a bare folder is no package
    raise Failure(
        f"pypto is installed, at {_elsewhere.origin}",
        "this spelling would hide the installed package",
        f"take {_HERE.parent} from the path, or uninstall pypto",
    )

# Names that the language has, too, with the same arguments.
_SAME = """
    DYNAMIC STATIC CastMode function symbolic_scalar loop loop_unroll is_loop_begin is_loop_end
    min max ceildiv view assemble reshape transpose permute unsqueeze squeeze flatten concat
    expand_clone clone zeros ones arange eye one_hot tril triu
    add sub mul div pow remainder fmod floor_divide maximum minimum atan2 logaddexp
    abs neg exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal square sign
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
    floor ceil trunc frac isnan isinf isfinite nan_to_num lerp masked_fill clip clamp
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
    logical_and logical_or logical_not eq ne lt le gt ge where
    sum prod amax amin mean var std any all count_nonzero logsumexp
    relu relu6 leaky_relu elu gelu silu sigmoid softplus mish hardswish hardsigmoid logsigmoid
    softmax log_softmax rms_norm layer_norm online_softmax
    gather scatter scatter_ scatter_add scatter_add_ index_select index_add index_add_
    take_along_dim flip sort argsort topk argmax argmin cumsum cumprod cummax cummin
    pad fillpad quantize dequantize scaled_mm
    set_cube_tile_shapes
    set_semantic_label device_synchronize
"""
# Element types, by their names there.
_TYPES = {
    "DT_BOOL": "boolean", "DT_INT8": "i8", "DT_INT16": "i16", "DT_INT32": "i32", "DT_INT64": "i64",
    "DT_UINT8": "u8", "DT_UINT16": "u16", "DT_UINT32": "u32", "DT_UINT64": "u64",
    "DT_FP16": "f16", "DT_BF16": "bf16", "DT_FP32": "f32", "DT_DOUBLE": "f64",
}  # fmt: skip

also_ours(str(_HERE))  # no line of this file is a user's
if "torch" in sys.modules:  # there, PyTorch itself finds the device npu
    with contextlib.suppress(Failure):
        importlib.import_module("pto.torch.npu")

globals().update({name: getattr(pto, name) for name in _SAME.split()})
globals().update({name: getattr(pto, ours) for name, ours in _TYPES.items()})
DataType = SimpleNamespace(**{name: getattr(pto, ours) for name, ours in _TYPES.items()})
CastMode = SimpleNamespace(**{f"CAST_{one.name}": one for one in pto.CastMode})
SaturationMode = pto.SaturationMode
SymbolicScalar = SymInt = _SymbolicScalar
TileOpFormat = SimpleNamespace(TILEOP_ND="nd", TILEOP_NZ="nz")
DYN = pto.DYN


class _Tensor(type):
    """Lets isinstance(x, pypto.Tensor) hold for traced tensors."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _Traced)


class Tensor(metaclass=_Tensor):
    """An annotation, Tensor([DYNAMIC, 64], DT_FP32); while tracing, a local tensor."""

    def __new__(
        cls, shape: Any = None, dtype: Any = None, name: str = "", *_: Any, **__: Any
    ) -> Any:
        if is_tracing():
            return pto.tensor(shape, pto.f32 if dtype is None else dtype, name)
        return _annotation(shape, dtype)

    def __class_getitem__(cls, given: Any) -> TensorType:
        """Tensor[...], or the shape as a list, with what else describes it behind."""
        parts = given if isinstance(given, tuple) else (given,)
        shape = next((one for one in parts if isinstance(one, list | tuple)), None)
        if shape is None:
            return TensorType(given)
        return _annotation(shape, next((one for one in parts if isinstance(one, pto.DType)), None))


def _annotation(shape: Any, dtype: Any) -> TensorType:
    """No sizes at all stand for any."""
    return TensorType((*(shape or [...]), *([] if dtype is None else [dtype])))


tensor = Tensor


def full(size: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Any:
    return pto.full(size, fill_value, dtype)


def cast(x: Any, dtype: Any, mode: Any = pto.CastMode.NONE, satmode: Any = False) -> Any:
    return pto.cast(x, dtype, mode, satmode)


def matmul(a: Any, b: Any, out_dtype: Any = None, *, a_trans: bool = False, b_trans: bool = False,
           c_matrix_nz: bool = False,
           extend_params: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Products, with a bias added; formats in which a chip keeps matrices have no meaning here."""
    product = pto.matmul(a, b, out_dtype, a_trans=a_trans, b_trans=b_trans)
    for name, value in (extend_params or {}).items():
        if name != "bias_tensor":
            fail(f"matmul: extend_params has {name}", "it is not there yet; bias_tensor is",
                 "write the operation behind the product")  # fmt: skip
        product = product + pto.cast(value, product.dtype)
    return product


def set_vec_tile_shapes(*dims: int) -> None:
    """A tile, also for operations of another rank; sizes known only at the call say nothing."""
    if not [size for size in dims if not isinstance(size, int)]:
        pto.set_vec_tile_shapes(*dims, for_any_rank=True)


def get_vec_tile_shapes() -> list[int]:
    return pto.get_vec_tile_shapes() if is_tracing() else []


def get_cube_tile_shapes() -> list[list[int]]:
    return pto.get_cube_tile_shapes() if is_tracing() else []


def round(x: Any, decimals: int = 0) -> Any:
    return pto.round(x * 10.0**decimals) / 10.0**decimals if decimals else pto.round(x)


def axpy_(y: Any, x: Any, alpha: Any = 1.0) -> Any:
    pto.move(y + x * alpha, y)
    return y


# Names for one expression of the language.
_EXPRESSIONS = {
    "erfc": lambda x: 1 - pto.erf(x),
    "hypot": lambda a, b: pto.sqrt(a * a + b * b),
    "prelu": lambda x, weight: pto.where(x >= 0, x, x * weight),
    "expand_exp_dif": lambda a, b: pto.exp(a - b),
    "ceil_div": lambda a, b: -pto.floor_divide(-a, b),
    "bytes_of": lambda kind: kind.bytes,
}
# ... and for one of its functions.
_OTHERWISE = {
    "greater": "gt", "floor_div": "floor_divide", "lrelu": "leaky_relu",
}  # fmt: skip
globals().update(_EXPRESSIONS)
globals().update({name: getattr(pto, ours) for name, ours in _OTHERWISE.items()})


def scatter_update(x: Any, dim: int, index: Any, src: Any) -> Any:
    return pto.scatter_update(x, index, src)


def cond(condition: Any, *ways: Callable) -> Any:
    """`if pypto.cond(c):` is an `if` over c; with two functions, the language's."""
    return pto.cond(condition, *ways) if ways else condition


def from_torch(x: Any, *_: Any, **__: Any) -> Any:
    """A torch tensor as an argument: itself."""
    return x


def jit(function: Callable | None = None, **settings: Any) -> Any:
    """The language's jit; settings of other compilers and devices are named once."""
    _no_meaning(settings)
    made = pto.jit(short_writes=True)
    return made if function is None else made(function)


class RunMode(enum.IntEnum):
    """Where programs run; here the device of the tensors says so."""

    NPU, SIM = 0, 1


_said: set[str] = set()


def _no_meaning(settings: dict[str, Any]) -> None:
    for name in settings:
        if name not in _said:
            _said.add(name)
            file, _, line = user_line().rpartition(":")
            text = f"pypto: the setting {name} has no meaning in OpenPTO\n  fix: leave it out"
            warnings.warn_explicit(text, RuntimeWarning, file, int(line or 0))


def _settings(**settings: Any) -> None:
    _no_meaning(settings)


class options(contextlib.ContextDecorator):  # noqa: N801 a name of that package
    """`with pypto.options(...)` or `@pypto.options(...)`: settings for what is inside."""

    def __init__(self, name: str = "", *_: Any, **settings: Any):
        _no_meaning(settings)

    def __enter__(self) -> "options":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


set_pass_options = set_host_options = set_codegen_options = set_runtime_options = _settings
set_verify_options = set_debug_options = set_options = _settings


def set_matrix_size(*_: Any) -> None:
    _no_meaning({"matrix_size": None})


def _inlined(function: Callable) -> Callable:
    """A function that a traced one calls is Python's, and needs no mark."""
    return function


frontend = SimpleNamespace(jit=jit, function=_inlined, dynamic=lambda name="": pto.DYN)
sys.modules[f"{__name__}.frontend"] = frontend  # type: ignore[assignment]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'pypto' has no attribute {name!r}")
    raise UnknownAttribute(f"pypto has no {name} here", nearest(name, sorted(globals())),
                           "use a name of pto: docs/language.md")  # fmt: skip
