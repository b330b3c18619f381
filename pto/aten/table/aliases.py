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
    "special_logsumexp": "logsumexp",
}  # fmt: skip

_NONE = ("true_divide.Tensor_mode", "true_divide.Scalar_mode")  # true_divide has no such overload
_SPECIAL = "the tile language has no such function: a series or a continued fraction by range"
_COMPLEX = "a complex result, which no tile has"
LEFT = {
    **dict.fromkeys(
        ("digamma", "erfinv", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma", "i0",
         "special_digamma", "special_erfcx", "special_erfinv", "special_gammainc",
         "special_gammaincc", "special_gammaln", "special_i0", "special_i0e", "special_i1",
         "special_i1e", "special_log_ndtr", "special_multigammaln", "special_ndtri",
         "special_polygamma", "special_psi", "special_zeta"), _SPECIAL),
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
                rows[full] = replace(one, overload=full, base=overload)
