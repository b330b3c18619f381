# SPDX-License-Identifier: Apache-2.0
"""Polynomials fitted to functions of the normal distribution, element by element, in f32 and f64.

Each is a Chebyshev fit in u from -1 to 1 over a range, computed with 45 digits (mpmath.chebyfit);
it is off by at most 3e-8 of the function for f32, and 3e-16 for f64. Coefficients stand from that
of 1 upwards.
"""

import math
from collections.abc import Sequence
from typing import Any

from pto import language as tile
from pto.language.tensor import Tensor

# erfinv(x) / x by w = -log(1 - x * x) from 0 to 6.
_NEAR_32 = (
    1.623542, 0.72489125, -0.051643305, -0.022577515, 0.015801731, -0.0030870782, -0.0012842561,
    0.0009790986, -0.0001323032, -0.00010700975, 4.1803265e-05,
)  # fmt: skip
# erfinv(x) / x / sqrt(w) by 1 / sqrt(w), for w from 6 to 104; in f64 from 6 to 30, and to 745.
_FAR_32 = (
    0.95932186, -0.030656673, 0.002067068, 0.002089739, -0.00026874154, 0.0005706624,
    0.0005138669, 0.0001420727, -0.0002825493, -0.00017957055, 5.690927e-05, 5.4244312e-05,
)  # fmt: skip
_NEAR_64 = (
    1.6235420064648298, 0.7248912124984749, -0.05164321698905371, -0.022576907976551548,
    0.015799967277511966, -0.0030900907012091023, -0.0012742935284965119, 0.0009841181254748599,
    -0.00015542173302415948, -0.00010761048394638062, 6.559147704275708e-05,
    -5.566942132589193e-06, -9.209095952234993e-06, 4.303022343838663e-06,
    2.9610315901774704e-08, -7.594836362330169e-07, 2.728732674903525e-07,
    3.5392072457962174e-08, -6.29741653302746e-08, 1.4963424189401708e-08,
    7.1169767139452206e-09, -4.0964285191008486e-09, -3.2035603189848607e-10,
    4.082529185839612e-10,
)  # fmt: skip
_FAR_64 = (
    0.9511643015378642, -0.021146625763407062, 0.0020180494775187676, 0.0009341625979162719,
    0.0002983367952795234, 0.00025341072171639647, -1.482662357393055e-05,
    -9.382356816300911e-05, -1.232703004318905e-05, 3.426986044715948e-05,
    2.9659183571468673e-06, -1.264347251523128e-05, 1.429803760766008e-06, 4.013311322040906e-06,
    -1.7481036329927998e-06, -7.529162197152589e-07, 9.25541301462417e-07,
    -1.1075013302141298e-07, -3.024521992735177e-07, 1.4119931165809567e-07,
    5.8657702027115847e-08, -4.725864193370008e-08, -5.1626576259215314e-09,
    6.338508783354539e-09,
)  # fmt: skip
_FARTHEST_64 = (
    0.9874058589512175, -0.012796352642911929, -0.0016228686484979157, 0.0005789647006411724,
    -9.986376312815712e-05, 2.543595254133922e-05, -8.680982190846102e-06, 3.328006723413721e-06,
    -1.3838102211203275e-06, 6.137193149330844e-07, -2.8702522343040516e-07,
    1.3905248439955635e-07, -6.535103450972004e-08, 3.313101510640513e-08,
    -2.6944630460056243e-08, 1.491511731857515e-08, 7.1323961891378144e-09,
    -4.547199117720648e-09, -1.334467759561017e-08, 7.930275687718724e-09, 6.018380937722771e-09,
    -3.6147464424987555e-09, -1.917995838506647e-09, 1.1418840485364706e-09,
)  # fmt: skip
# exp(x * x) erfc(x) (1 + 2 x) for x from 0, by (x - 2) / (x + 2).
_SCALED_32 = (
    1.2769784, -0.09276382, -0.16603109, 0.1640505, -0.054211996, -0.008024739, 0.008689253,
    0.0012305032, -0.001395805, -0.0003709284, 0.00016084034, 6.807515e-05,
)  # fmt: skip
_SCALED_64 = (
    1.2769783815525289, -0.09276382658574592, -0.16603039761533678, 0.16405128003341138,
    -0.054220000989384204, -0.00803401508070107, 0.008722653817387203, 0.0012713389282744537,
    -0.0014568132808283696, -0.0004543404049981945, 0.0002063626822516069,
    0.00015103631426786204, -1.490086838736556e-06, -3.6411001622940485e-05,
    -1.3550516284211504e-05, 3.6750363089279796e-06, 5.338160548349548e-06,
    1.5745839094882263e-06, -8.487423923295052e-07, -9.30575784807695e-07,
    -1.282319886479744e-07, 2.2475443986804742e-07, 9.106897244810663e-08,
    -2.204230390254421e-08, -1.4270879042502484e-08, -4.1169891895659953e-10,
)  # fmt: skip


def _polynomial(coefficients: Sequence[float], u: Tensor) -> Tensor:
    found: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        found = found * u + coefficient
    return found


def _over(coefficients: Sequence[float], x: Tensor, low: float, high: float) -> Tensor:
    """A polynomial that is fitted from low to high."""
    return _polynomial(coefficients, (x - (high + low) / 2) * (2 / (high - low)))


def _inverse(x: Tensor, rest: Tensor) -> Tensor:
    """erfinv(x) with rest = 1 - x * x; the infinity of x's sign where it is 0."""
    w = -tile.log(rest)
    root = tile.sqrt(tile.maximum(w, 6.0))
    by = 1 / root
    first = 1 / math.sqrt(6)
    if x.dtype is tile.f64:
        between = 1 / math.sqrt(30)
        far = tile.where(by < between, _over(_FARTHEST_64, by, 1 / math.sqrt(745), between),
                         _over(_FAR_64, by, between, first))  # fmt: skip
        near = _over(_NEAR_64, w, 0.0, 6.0)
    else:
        far = _over(_FAR_32, by, 1 / math.sqrt(104), first)
        near = _over(_NEAR_32, w, 0.0, 6.0)
    return x * tile.where(w < 6, near, root * far)


def erfinv(x: Tensor) -> Tensor:
    """The number whose erf is x; NaN beyond -1 and 1."""
    return _inverse(x, (1 - x) * (1 + x))


def ndtri(p: Tensor) -> Tensor:
    """The number below which a share p of the normal distribution lies; NaN beyond 0 and 1."""
    return _inverse(2 * p - 1, 4 * p * (1 - p)) * math.sqrt(2)


def _scaled(x: Tensor) -> Tensor:
    """exp(x * x) erfc(x) for x from 0."""
    table = _SCALED_64 if x.dtype is tile.f64 else _SCALED_32
    halves = [0.5 * coefficient for coefficient in table]  # exact, and no 2 x that may overflow
    return _polynomial(halves, 1 - 4 / (x + 2)) / (0.5 + x)


def erfcx(x: Tensor) -> Tensor:
    """exp(x * x) erfc(x)."""
    found = _scaled(tile.abs(x))
    return tile.where(x < 0, 2 * tile.exp(x * x) - found, found)


def erfc_tail(x: Tensor) -> Tensor:
    """erfc(x) for x from 0, where it may be tiny."""
    front = tile.trunc(x * 16) * (1 / 16)  # its square is exact
    return _scaled(x) * tile.exp(-front * front) * tile.exp((front - x) * (front + x))
