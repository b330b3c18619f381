# SPDX-License-Identifier: Apache-2.0
"""Rows of the error function's relatives, and of the normal distribution, element by element."""

import math

from pto import language as tile
from pto.aten.rows import row
from pto.aten.table.pointwise import WIDE
from pto.formulas import numbers, series


@row("erfc", ulp=8)
def erfc(self):
    return numbers.erfc(self)


@row("erfinv", ulp=8)
def erfinv(self):
    return series.erfinv(self)


@row("special_erfcx", types=WIDE, ulp=16)  # ATen's own is 8 ULP off in f32
def erfcx(self):
    return series.erfcx(self)


@row("special_ndtr", ulp=4, is_sum=True)
def ndtr(self):
    return 0.5 * (1 + tile.erf(self * math.sqrt(0.5)))


@row("special_ndtri", types=WIDE, ulp=8)
def ndtri(self):
    return series.ndtri(self)


@row("special_log_ndtr", types=WIDE, ulp=16)
def log_ndtr(self):
    return numbers.log_ndtr(self)
