# SPDX-License-Identifier: Apache-2.0
"""The library of the npu device, once activation.py has loaded it."""

import ctypes

loaded: ctypes.CDLL | None = None


def functions() -> ctypes.CDLL:
    """The C functions of the device (npu/load.cpp), which has to be active."""
    assert loaded is not None
    return loaded
