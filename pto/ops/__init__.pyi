# SPDX-License-Identifier: Apache-2.0
# Written by ./dev docs from the operators' schemas; arrays are those of any library.
from collections.abc import Sequence
from typing import Any

def add(x: Any, y: Any, *, out: Any = ...) -> Any:
    """x + y."""

def add_layer_norm(
    x: Any,
    residual: Any,
    weight: Any,
    bias: Any,
    eps: float = ...,
    *,
    out: Any = ...,
) -> Any:
    """layer_norm(x + residual)."""

def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = ...,
    lengths: Any = ...,
    slopes: Any = ...,
    *,
    scale: float | None = ...,
    causal: bool = ...,
    window: Sequence[int] = ...,
    softcap: float = ...,
    position: int = ...,
    layout: str = ...,
    dropout: float = ...,
    seed: int = ...,
    out: Any = ...,
) -> Any:
    """softmax(scale q kᵀ + bias) v for q [batch..., heads, queries, width], k and v
    [batch..., key heads, keys, width]; each head of k serves heads / key heads of q in a row.

    Query i counts as position i + `position` among the keys. It sees the keys from `window[0]`
    before it to `window[1]` behind it (-1: all), none behind it if `causal`, of `lengths[batch]`
    ones. Scores become softcap tanh(score / softcap), minus slopes[head] |distance|, plus the mask
    (of bool: -infinity where it is False). layout 'LHD': positions come before heads.
    `dropout` is the share of weights that are dropped, by a generator that counts (kept_in_numpy):
    which depends on `seed`, head, query and key alone.
    """

def attention_with_log_sums(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = ...,
    lengths: Any = ...,
    slopes: Any = ...,
    *,
    scale: float | None = ...,
    causal: bool = ...,
    window: Sequence[int] = ...,
    softcap: float = ...,
    position: int = ...,
    layout: str = ...,
    dropout: float = ...,
    seed: int = ...,
    out: Any = ...,
) -> Any:
    """attention, and the logarithms of the sums of exponentials of scores, [batch..., heads,
    queries] in f32: two parts of the keys are attended apart and joined by them.
    """

def bias_add_layer_norm(
    x: Any,
    bias: Any,
    residual: Any,
    weight: Any,
    ln_bias: Any,
    eps: float = ...,
    *,
    out: Any = ...,
) -> Any:
    """layer_norm(x + bias + residual): what follows the matrix product of a transformer layer."""

def bias_gelu(x: Any, bias: Any, *, approximate: str = ..., out: Any = ...) -> Any:
    """gelu(x + bias)."""

def concat(tensors: Sequence[Any], dim: int = ..., *, out: Any = ...) -> Any:
    """Tensors one after another along an axis; their other sizes are equal."""

def conv2d(
    x: Any,
    weight: Any,
    bias: Any = ...,
    *,
    stride: Sequence[int] = ...,
    padding: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    groups: int = ...,
    out: Any = ...,
) -> Any:
    """The convolution of images x [n, c, h, w] with filters weight [out, c / groups, kh, kw]."""

def embedding(weight: Any, indices: Any, *, out: Any = ...) -> Any:
    """The rows of weight [rows, width] that the indices name; others are an error."""

def fused_add_relu(x: Any, y: Any, *, alpha: float = ..., out: Any = ...) -> Any:
    """max(x + alpha * y, 0)."""

def gather(x: Any, indices: Any, dim: int = ..., *, out: Any = ...) -> Any:
    """The parts of x along `dim` that the indices name; negative ones count from the end."""

def gelu(x: Any, *, approximate: str = ..., out: Any = ...) -> Any:
    """x times the normal distribution function of x; "tanh" takes PyTorch's approximation."""

def gemm(
    a: Any,
    b: Any,
    c: Any = ...,
    *,
    alpha: float = ...,
    beta: float = ...,
    transpose_a: bool = ...,
    transpose_b: bool = ...,
    out: Any = ...,
) -> Any:
    """alpha a @ b + beta c, of matrices; c broadcasts to the result."""

def layer_norm(x: Any, weight: Any, bias: Any, eps: float = ..., *, out: Any = ...) -> Any:
    """x with mean 0 and variance 1 along the last axis, times weight, plus bias."""

def linear(
    x: Any,
    weight: Any,
    bias: Any = ...,
    residual: Any = ...,
    packed: Any = ...,
    *,
    activation: str = ...,
    out: Any = ...,
) -> Any:
    """activation(x @ weight.T + bias) + residual: a linear layer, weight outputs x inputs.

    activation is 'none', 'relu', 'silu', 'gelu' or 'gelu_tanh', residual has the result's shape.
    Where packed is given, it is the weight as _pack_weight packs it and is read in its place.
    """

def linear_int4(
    x: Any,
    weight: Any,
    scale: Any,
    zero: Any = ...,
    bias: Any = ...,
    residual: Any = ...,
    packed: Any = ...,
    *,
    group: int = ...,
    activation: str = ...,
    out: Any = ...,
) -> Any:
    """activation(x @ w.T + bias) + residual: a linear layer with a weight of 4 bits.

    weight is outputs x inputs / 2: numbers from -8 to 7, two in a byte, the first one low. `group`
    inputs, 32, 64 or 128, share a scale and perhaps a zero, (inputs / group) x outputs: w is number
    * scale + zero, rounded once to f32. x is not quantised. The other arguments are those of
    linear.
    """

def linear_int8(
    x: Any,
    weight: Any,
    scale: Any,
    bias: Any = ...,
    residual: Any = ...,
    packed: Any = ...,
    *,
    activation: str = ...,
    out: Any = ...,
) -> Any:
    """activation((x @ weight.T) * scale + bias) + residual: a linear layer with a weight of int8.

    weight is outputs x inputs, scale has one number for each output; x is not quantised. The other
    arguments are those of linear.
    """

def matmul(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = ...,
    transpose_b: bool = ...,
    out: Any = ...,
) -> Any:
    """a @ b, of matrices, vectors and batches of them, either transposed first.

    From Python `out_dtype` names the result's element type, as torch.mm has it: f32 for f16 and
    bf16 is matmul_f32, i32 for bytes is matmul_i32.
    """

def matmul_f32(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = ...,
    transpose_b: bool = ...,
    out: Any = ...,
) -> Any:
    """a @ b as f32: the sums of matmul before it rounds them."""

def matmul_i32(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = ...,
    transpose_b: bool = ...,
    out: Any = ...,
) -> Any:
    """a @ b of bytes, each with or without a sign, as i32: exact up to depths of 33,025, then it
    wraps. The rest is as matmul has it.
    """

def mul(x: Any, y: Any, *, out: Any = ...) -> Any:
    """x * y."""

def mul_scalar(x: Any, factor: float, *, out: Any = ...) -> Any:
    """factor * x; the factor is a number of the call."""

def mul_scalar_(x: Any, factor: float, *, out: Any = ...) -> Any:
    """factor * x; the factor is a number of the call."""

def nonzero(x: Any, *, out: Any = ...) -> Any:
    """The places of the elements that are not 0, one a row, in row-major order: [n, axes of x].

    NaN is not 0, and -0 is.
    """

def quantize_int4(weight: Any, *, group: int = ..., symmetric: bool = ..., out: Any = ...) -> Any:
    """The weight, scale and zero of linear_int4 for a weight of floats, outputs x inputs.

    Symmetric: zero is 0, and the scale the least that keeps a group within -8 .. 7; else both
    span a group from its least number to its largest. A group with a number that is not finite has
    a scale of NaN; a scale that would be subnormal is 0.
    """

def quantize_rows(x: Any, *, rotation: int = ..., out: Any = ...) -> Any:
    """Each row as bytes from -127 to 127 times a scale of its own, for scaled_matmul.

    The scale is the largest magnitude / 127, f32, with x's axes but the last: NaN where a number is
    not finite, 0 where it would be subnormal. With a rotation r of 16, 32, 64 or 128, which divides
    the row, Hadamard's matrix of order r over sqrt(r) first multiplies each run of r numbers: an
    outlier becomes many small numbers, so the error of its row is smaller. If both factors of
    scaled_matmul have one rotation, the product is that of x itself: the matrix is orthogonal.
    """

def relu(x: Any, *, out: Any = ...) -> Any:
    """The larger of x and 0; NaN stays."""

def relu_(x: Any, *, out: Any = ...) -> Any:
    """The larger of x and 0; NaN stays."""

def rms_norm(x: Any, weight: Any, eps: float = ..., *, out: Any = ...) -> Any:
    """x divided by the root of its mean square along the last axis, times weight."""

def scaled_matmul(
    a: Any,
    b: Any,
    row_scale: Any,
    col_scale: Any,
    bias: Any = ...,
    residual: Any = ...,
    packed: Any = ...,
    *,
    activation: str = ...,
    out: Any = ...,
) -> Any:
    """activation((a @ b.T) * row_scale * col_scale + bias) + residual, of bytes.

    b is outputs x inputs, as the weight of linear. The product is exact; each sum is rounded to f32
    and multiplied by its row's scale, then its column's. The result has the type of col_scale.
    quantize_rows makes a and row_scale; where packed is given, it is b as _pack_weight packs it.
    """

def silu(x: Any, *, out: Any = ...) -> Any:
    """x * sigmoid(x)."""

def silu_mul(x: Any, y: Any, *, out: Any = ...) -> Any:
    """silu(x) * y: the gate of a SwiGLU layer."""

def slice(
    x: Any,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    *,
    out: Any = ...,
) -> Any:
    """x[starts:ends:steps] along these axes, as Python slices; an axis may stand once."""

def softmax(x: Any, dim: int = ..., *, out: Any = ...) -> Any:
    """exp(x) times the reciprocal of its sum along `dim`, without overflow."""

def split(x: Any, *, sizes: Sequence[int], dim: int = ..., out: Any = ...) -> Any:
    """Consecutive pieces of x along an axis, of these sizes, which add up to the axis."""

def top_k(x: Any, k: int, *, dim: int = ..., largest: bool = ..., out: Any = ...) -> Any:
    """The k largest (or smallest) elements along an axis, in order, and where they stand.

    NaN counts as the largest; of equal elements the one that stands first comes first.
    """

def transpose(x: Any, perm: Sequence[int], *, out: Any = ...) -> Any:
    """x with its axes in another order: axis i of the result is axis perm[i] of x."""
