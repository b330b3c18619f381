# SPDX-License-Identifier: Apache-2.0
"""What every Python test may use."""

import os
import signal

import pytest
from host_cases import kernels, rt, two  # noqa: F401 fixtures of level host

# A shell that starts the tests in the background ignores Ctrl-C for them and for their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def deep() -> bool:
    """True for the long form of a test: ./dev test --deep."""
    return os.environ.get("PTO_DEEP", "") == "1"
