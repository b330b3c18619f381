# SPDX-License-Identifier: Apache-2.0
"""What every Python test may use."""

import os

import pytest
from host_cases import kernels, rt, two  # noqa: F401 fixtures of level host


@pytest.fixture(scope="session")
def deep() -> bool:
    """True for the long form of a test: ./dev test --deep."""
    return os.environ.get("PTO_DEEP", "") == "1"
