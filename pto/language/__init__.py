# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F401
"""The tile language: what a function decorated with @pto.jit may use. See docs/tour.md."""

from pto.language import (
    dtypes,
    sizes,  # noqa: F401  operators of sizes
)
from pto.language.annotations import DYN, DYNAMIC, STATIC, Constant
from pto.language.branches import cond
from pto.language.casting import CastMode, SaturationMode, cast
from pto.language.checks import check
from pto.language.control import is_loop_begin, is_loop_end, loop, loop_unroll
from pto.language.debug import breakpoint, print
from pto.language.dtypes import (
    DType,
    bf16,
    bfloat16,
    boolean,
    dtype,
    f16,
    f32,
    f64,
    float16,
    float32,
    float64,
    i8,
    i16,
    i32,
    i64,
    int8,
    int16,
    int32,
    int64,
    u8,
    u16,
    u32,
    u64,
)
from pto.language.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    clamp,
    clip,
    cos,
    div,
    eq,
    erf,
    exp,
    floor,
    floor_divide,
    fmod,
    full_like,
    ge,
    gt,
    le,
    log,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    ones_like,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    square,
    sub,
    tanh,
    trunc,
    where,
    zeros_like,
)
from pto.language.exponentials import (
    exp2,
    expm1,
    log1p,
    log2,
    log10,
    logaddexp,
    logsumexp,
    softplus,
)
from pto.language.fill import full, ones, zeros
from pto.language.generated import arange, eye, one_hot, tril, triu
from pto.language.infer import (
    Spec,
    broadcast,
    require_equal,
    size_broadcast,
    size_max,
    size_min,
)
from pto.language.interpret import interpret, interpret_with_bounds
from pto.language.jit import Jit, jit
from pto.language.local import tensor
from pto.language.logic import logical_and, logical_not, logical_or
from pto.language.matrix import matmul, scaled_mm
from pto.language.nn import (
    elu,
    gelu,
    hardsigmoid,
    hardswish,
    layer_norm,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    online_softmax,
    relu6,
    rms_norm,
    silu,
    softmax,
)
from pto.language.numbers import (
    bitwise_left_shift,
    bitwise_right_shift,
    frac,
    isfinite,
    isinf,
    isnan,
    lerp,
    masked_fill,
    nan_to_num,
    sign,
)
from pto.language.ordering import argmax, argmin, argsort, sort, topk
from pto.language.padding import fillpad, pad
from pto.language.parts import assemble, move, view
from pto.language.quantization import dequantize, quantize, quantize_by
from pto.language.reduce import (
    all,
    amax,
    amin,
    any,
    count_nonzero,
    mean,
    prod,
    std,
    sum,
    sum_to,
    var,
)
from pto.language.scans import cummax, cummin, cumprod, cumsum
from pto.language.selection import (
    flip,
    gather,
    index_add,
    index_add_,
    index_select,
    scatter,
    scatter_,
    scatter_add,
    scatter_add_,
    scatter_update,
    take_along_dim,
)
from pto.language.shape import (
    broadcast_like,
    broadcast_to,
    clone,
    concat,
    expand_clone,
    flatten,
    permute,
    reshape,
    squeeze,
    stack,
    transpose,
    unsqueeze,
)
from pto.language.spelling import (
    device_synchronize,
    function,
    row_max_single,
    row_sum_single,
)
from pto.language.tensor import Tensor
from pto.language.tile_hints import (
    cut,
    get_cube_tile_shapes,
    get_vec_tile_shapes,
    leaf,
    options,
    set_cube_tile_shapes,
    set_semantic_label,
    set_vec_tile_shapes,
)
from pto.language.trace import Trace
from pto.language.trigonometry import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cosh,
    sinh,
    tan,
)
from pto.language.whole import ceildiv, max, min, symbolic_scalar

__all__ = [
    name for name, value in list(globals().items())
    if not name.startswith("_") and not isinstance(value, type(dtypes))  # modules
]  # fmt: skip
