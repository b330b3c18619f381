# SPDX-License-Identifier: Apache-2.0
"""Operators that PyTorch has under several names, and names that have no row, with the reason.

ALIASES maps a name to the name whose rows also serve its overloads of the same variant.
"""

from dataclasses import replace

from pto.aten.rows import Row

ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "clip": "clamp", "divide": "div",
    "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "true_divide": "div", "special_erf": "erf", "special_erfc": "erfc", "special_exp2": "exp2",
    "special_expit": "sigmoid", "special_expm1": "expm1", "special_log1p": "log1p",
    "special_logit": "logit", "special_sinc": "sinc",
    "special_logsumexp": "logsumexp", "concatenate": "cat", "row_stack": "vstack",
    "greater_": "gt_", "greater_equal_": "ge_", "less_": "lt_", "less_equal_": "le_",
    "not_equal_": "ne_", "special_erfinv": "erfinv",
}  # fmt: skip

_NONE = ("true_divide.Tensor_mode", "true_divide.Scalar_mode")  # true_divide has no such overload
_SPECIAL = "the tile language has no such function: a series or a continued fraction by range"
_SERIES = "a recurrence as long as the degree, which each element has for itself"
_COMPOSED = "PyTorch composes it of operators that have rows"
_LIST = "its results are a list, as long as the call says"
_COMPLEX = "a complex result, which no tile has"
LEFT = {
    **dict.fromkeys(
        ("digamma", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma", "i0",
         "special_digamma", "special_gammainc",
         "special_gammaincc", "special_gammaln", "special_i0", "special_i0e", "special_i1",
         "special_i1e", "special_multigammaln",
         "special_polygamma", "special_psi", "special_zeta", "special_airy_ai",
         "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1",
         "special_modified_bessel_i0", "special_modified_bessel_i1", "special_modified_bessel_k0",
         "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
         "special_scaled_modified_bessel_k1", "special_spherical_bessel_j0"), _SPECIAL),
    **dict.fromkeys(
        ("special_chebyshev_polynomial_t", "special_chebyshev_polynomial_u",
         "special_chebyshev_polynomial_v", "special_chebyshev_polynomial_w",
         "special_hermite_polynomial_h", "special_hermite_polynomial_he",
         "special_laguerre_polynomial_l", "special_legendre_polynomial_p",
         "special_shifted_chebyshev_polynomial_t", "special_shifted_chebyshev_polynomial_u",
         "special_shifted_chebyshev_polynomial_v", "special_shifted_chebyshev_polynomial_w"),
        _SERIES),
    **dict.fromkeys(
        ("chain_matmul", "inner", "kron", "linalg_matmul", "linalg_multi_dot", "linalg_vecdot",
         "linear", "matmul", "take_along_dim", "tensordot", "_chunk_cat"), _COMPOSED),
    **dict.fromkeys(("split_copy", "split_with_sizes_copy", "unbind_copy"), _LIST),
    "_stack": "PyTorch tells no size of its result, against which an output could be checked",
    "_batch_norm_with_update": "it writes the running statistics",
    "float_power_": "ATen computes it in float64, whatever the type of its tensors",
    **dict.fromkeys(("complex", "polar"), _COMPLEX),
    "conj_physical": "of real numbers ATen returns the argument itself",
    "frexp": "its exponents are the bits of a float, which the tile language does not read",
    "nextafter": "it steps through the bits of a float, which the tile language does not read",
    "gcd": "a loop of each element's own length",
    "lcm": "a loop of each element's own length",
    "float_power": "ATen computes it in float64, whatever the type of its tensors",
    "rrelu_with_noise": "it draws random numbers",
}  # fmt: skip


def add_aliases(rows: dict[str, Row]) -> None:
    """Adds to a table of rows those of all aliases."""
    for alias, name in ALIASES.items():
        for overload, one in list(rows.items()):
            first, _, variant = overload.partition(".")
            if first == name:
                full = f"{alias}.{variant}" if variant else alias
                if full in _NONE:
                    continue
                rows[full] = replace(one, overload=full, base=one.base or overload)
