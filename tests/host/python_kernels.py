# SPDX-License-Identifier: Apache-2.0
"""Python functions as kernels: they are found by their names in another process."""

import numpy as np


def total(x, out, factor, count):
    out[...] = x.sum() * factor + count


def halve(x, out):
    out[...] = np.asarray(x) / 2


def raises(x):
    raise ValueError("as it was told")


def writes_input(x):
    x[...] = 0
