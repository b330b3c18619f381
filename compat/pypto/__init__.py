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
from pto.language.tile_hints import set_options as _set_for_lines
from pto.language.trace import is_tracing
from pypto import _expressions
from pypto._arguments import with_public_names
from pypto._settings import NESTED, ORDER, TASKS, flat, options_of

_IMPORTED = {*globals()}
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

# Names that the language has, too.
_SAME = """
    DYN DYNAMIC STATIC function symbolic_scalar is_loop_begin is_loop_end min max ceildiv
    set_semantic_label device_synchronize
"""
# ... where the public package may have other names for the arguments.
_BY_NAME = """
    transpose permute unsqueeze squeeze flatten concat clone eye one_hot tril triu
    add sub mul floor_divide maximum minimum atan2 logaddexp
    abs neg exp2 expm1 log1p square sign
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
    floor ceil trunc frac isnan isinf isfinite nan_to_num lerp masked_fill clip clamp
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
    logical_and logical_or logical_not eq ne lt le gt ge
    amax amin mean var std any all count_nonzero logsumexp
    relu relu6 leaky_relu elu gelu silu sigmoid softplus mish hardswish hardsigmoid logsigmoid
    softmax log_softmax rms_norm layer_norm online_softmax
    gather scatter scatter_ scatter_add scatter_add_ index_select index_add index_add_
    take_along_dim flip sort cumsum cumprod cummax cummin scaled_mm
"""
# These take a precision there, which has no meaning.
_PRECISE = "div pow remainder fmod exp log log2 log10 sqrt rsqrt reciprocal"
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


# Without a meaning here: how exactly a chip computes, how its products round f32, how it keeps a
# matrix, and which tensors it keeps. RELU makes zeros of a product's negative results.
PrecisionType = enum.IntEnum("PrecisionType", "INTRINSIC HIGH_PRECISION", start=0)
TransMode = enum.IntEnum("TransMode", "CAST_NONE CAST_RINT CAST_ROUND", start=0)
TileOpFormat = enum.IntEnum("TileOpFormat", "TILEOP_ND TILEOP_NZ", start=0)
CachePolicy = enum.IntEnum("CachePolicy", "PREFETCH NONE_CACHEABLE", start=0)
ReLuType = enum.IntEnum("ReLuType", "NO_RELU RELU", start=0)

globals().update({name: getattr(pto, name) for name in _SAME.split()})
globals().update({name: with_public_names(getattr(pto, name)) for name in _BY_NAME.split()})
_PRECISION = ("precision_type", PrecisionType)
globals().update({n: with_public_names(getattr(pto, n), _PRECISION) for n in _PRECISE.split()})
globals().update({name: getattr(pto, ours) for name, ours in _TYPES.items()})
DataType = SimpleNamespace(**{name: getattr(pto, ours) for name, ours in _TYPES.items()})
CastMode = SimpleNamespace(**{f"CAST_{one.name}": one for one in pto.CastMode})
SaturationMode = pto.SaturationMode
SymbolicScalar = SymInt = _SymbolicScalar
platform = SimpleNamespace(npuarch="cpu")


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
            return TensorType(given, rest=pto.STATIC)
        return _annotation(shape, next((one for one in parts if isinstance(one, pto.DType)), None))


def _annotation(shape: Any, dtype: Any) -> TensorType:
    """Sizes that nothing says, as those of `...`, are numbers while tracing."""
    parts = (*(shape or [...]), *([] if dtype is None else [dtype]))
    return TensorType(parts, rest=pto.STATIC)


tensor = Tensor


def full(size: Any, fill_value: Any, dtype: Any = None, *, valid_shape: Any = None) -> Any:
    return pto.full(size if valid_shape is None else valid_shape, fill_value, dtype)


def cast(input: Any, dtype: Any, mode: Any = pto.CastMode.NONE, satmode: Any = False) -> Any:
    return pto.cast(input, dtype, mode, satmode)


def matmul(input: Any, mat2: Any, out_dtype: Any = None, *, a_trans: bool = False,
           b_trans: bool = False, c_matrix_nz: bool = False,
           extend_params: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Products; formats in which a chip keeps matrices have no meaning here."""
    given = dict(extend_params) if extend_params else None
    if given:
        given.pop("trans_mode", None)
        given["relu"] = given.pop("relu_type", given.get("relu", False)) in (True, ReLuType.RELU)
    return pto.matmul(input, mat2, out_dtype, a_trans=a_trans, b_trans=b_trans, extend_params=given)


def pad(x: Any, padding: Any, mode: str = "constant", value: Any = 0) -> Any:
    _check_constant("pad", mode)
    return pto.pad(x, padding, value)


def fillpad(x: Any, mode: str = "constant", value: Any = 0) -> Any:
    """Puts `value` where a part lacks elements of the shape in which it was asked."""
    _check_constant("fillpad", mode)
    return pto.fillpad(x, None, value)


def _check_constant(name: str, mode: Any) -> None:
    if mode != "constant":
        fail(f"{name} pads with {mode!r}", 'the only mode is "constant"', "concat slices")


def expand_clone(input: Any, shape: Any, *, valid_shape: Any = None) -> Any:
    return pto.expand_clone(input, shape if valid_shape is None else valid_shape)


class loop(pto.loop):  # noqa: N801 a name of that package
    """The language's loop; when its iterations are handed on has no meaning here."""

    def __init__(self, *bounds: Any, submit_before_loop: bool = False, **others: Any):
        super().__init__(*bounds, **others)


class loop_unroll(pto.loop_unroll):  # noqa: N801 a name of that package
    """The language's loop_unroll."""

    def __init__(self, *bounds: Any, submit_before_loop: bool = False, **others: Any):
        super().__init__(*bounds, **others)


def set_cube_tile_shapes(m: Any, k: Any, n: Any, *_: Any, **__: Any) -> None:
    pto.set_cube_tile_shapes(m, k, n)


def set_vec_tile_shapes(*dims: int) -> None:
    """A tile, also for operations of another rank; sizes known only at the call say nothing."""
    if not [size for size in dims if not isinstance(size, int)]:
        pto.set_vec_tile_shapes(*dims, for_any_rank=True)


def get_vec_tile_shapes() -> list[int]:
    return pto.get_vec_tile_shapes() if is_tracing() else []


def get_cube_tile_shapes() -> list[list[int]]:
    return pto.get_cube_tile_shapes() if is_tracing() else []


def round(input: Any, decimals: int = 0) -> Any:
    return pto.round(input * 10.0**decimals) / 10.0**decimals if decimals else pto.round(input)


# Names for one expression of the language.
_EXPRESSIONS = {
    "erfc": lambda x: 1 - pto.erf(x),
    "hypot": lambda a, b: pto.sqrt(a * a + b * b),
    "prelu": lambda x, weight: pto.where(x >= 0, x, x * weight),
    "expand_exp_dif": lambda a, b: pto.exp(a - b),
    "lrelu": lambda other, negative_slope=0.01: pto.leaky_relu(other, negative_slope),
    "bytes_of": lambda kind: kind.bytes,
}
_IN_MEMORY = {  # under `experimental`: rows through a table of pages, wherever a chip puts them
    "gather_in_ub": lambda rows, index, pages, size, axis=-2: _through_pages(
        rows, index, pages, size),
    "gather_in_l1": lambda rows, index, pages, size, width, is_b_matrix=False, is_trans=False:
        _through_pages(rows, index, pages, size)[:, :width],
    "transposed_batchmatmul": lambda a, b, out_dtype: pto.matmul(
        a.transpose(0, 1), b, out_dtype).transpose(0, 1),
}  # fmt: skip
for _name, _function in _EXPRESSIONS.items():
    _function.__name__ = _name
    globals()[_name] = with_public_names(_function)
globals().update({name: getattr(_expressions, name) for name in _expressions.NAMES.split()})
globals().update(  # ... and for one of its functions
    greater=with_public_names(pto.gt), floor_div=with_public_names(pto.floor_divide)
)


def _through_pages(rows: Any, index: Any, pages: Any, size: int) -> Any:
    """The rows at positions whose pages, of `size` rows each, a table finds."""
    at, found = pto.cast(index.flatten(), pto.i64), pto.cast(pages.flatten(), pto.i64)
    page = pto.floor_divide(at, size)
    return rows[found[page] * size + at - page * size]


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


# Where programs run; here the device of the tensors says so.
RunMode = enum.IntEnum("RunMode", "NPU SIM", start=0)
_said: set[str] = set()


def _no_meaning(settings: dict[str, Any], but: Any = ()) -> None:
    for name in settings:
        if name not in _said and name not in but and name != "sg_set_scope":
            _said.add(name)
            file, _, line = user_line().rpartition(":")
            text = f"pypto: the setting {name} has no meaning in OpenPTO\n  fix: leave it out"
            warnings.warn_explicit(text, RuntimeWarning, file, int(line or 0))


_ACTING = {"name": "semantic_label", "vec_tile_shapes": "vec_tile_shapes",
           "cube_tile_shapes": "cube_tile_shapes"}  # fmt: skip

_ACTS = (*_ACTING, *TASKS, ORDER, *NESTED)


class options(contextlib.ContextDecorator):  # noqa: N801 a name of that package
    """`with pypto.options(...)` or `@pypto.options(...)`: settings for what is inside.

    In a traced function tiles, the label and sg_set_scope, which parts functions, are the
    language's; outside of one nothing acts.
    """

    def __init__(self, name: str = "", **settings: Any):
        self.given = {_ACTING[key]: value for key, value in ({"name": name} | settings).items()
                      if key in _ACTING and value}  # fmt: skip
        self.scope: Any = None
        self.given |= options_of(settings)
        _no_meaning(flat(settings), but=_ACTS)
        self.parts = _parts(settings)

    def __enter__(self) -> "options":
        if is_tracing():
            self.scope = pto.options(**self.given)
            self.scope.__enter__()
            if self.parts:
                pto.cut()
        return self

    def __exit__(self, *error: Any) -> None:
        scope, self.scope = self.scope, None
        if scope is not None:
            scope.__exit__(*error)


def _parts(settings: dict[str, Any]) -> bool:
    """Says whether settings part the functions that operations become."""
    return "sg_set_scope" in flat(settings)


def _set_options(**settings: Any) -> None:
    _no_meaning(settings, but=_ACTS)
    if not is_tracing():
        return
    if found := options_of(settings):
        _set_for_lines(**found)
    if settings.get("vec_tile_shapes"):
        set_vec_tile_shapes(*settings["vec_tile_shapes"])
    if settings.get("cube_tile_shapes"):
        set_cube_tile_shapes(*settings["cube_tile_shapes"])
    if _parts(settings):
        pto.cut()


set_options = set_pass_options = set_host_options = set_codegen_options = _set_options
set_runtime_options = set_verify_options = set_debug_options = _set_options


def set_matrix_size(*_: Any) -> None:
    _no_meaning({"matrix_size": None})


def _inlined(function: Callable) -> Callable:
    """A function that a traced one calls is Python's, and needs no mark."""
    return function


frontend = SimpleNamespace(jit=jit, function=_inlined, dynamic=lambda name="": pto.DYN)
experimental = SimpleNamespace(set_operation_options=_set_options, **_IN_MEMORY)
sys.modules[f"{__name__}.frontend"] = frontend  # type: ignore[assignment]
sys.modules[f"{__name__}.experimental"] = experimental  # type: ignore[assignment]
__all__ = sorted(
    name for name, value in globals().items()
    if not name.startswith("_") and not isinstance(value, type(sys)) and name not in _IMPORTED
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'pypto' has no attribute {name!r}")
    raise UnknownAttribute(f"pypto has no {name} here", nearest(name, sorted(globals())),
                           "use a name of pto: docs/language.md")  # fmt: skip
