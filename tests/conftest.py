# SPDX-License-Identifier: Apache-2.0
"""Fixtures and settings of every Python test."""

import gc
import importlib.util
import os
import signal
from pathlib import Path

import minutes
import pytest
from host_cases import kernels, rt, two  # noqa: F401 fixtures of level host
from pypto_package import pypto  # noqa: F401 a fixture: compat/pypto

HAS_PYTORCH = importlib.util.find_spec("torch") is not None

# A shell that starts the tests in the background ignores Ctrl-C for them and for their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Objects of imported modules and of the collected tests live until the end: no search for
    garbage looks through them, which takes a third of a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def without_pytorch(report, path):
    """Leaves out what fails since PyTorch is not installed, in the test or in a child of it."""
    text = str(report.longrepr) if report.failed and not HAS_PYTORCH else ""
    if "No module named 'torch'" in text or "needs PyTorch, which is not installed" in text:
        report.outcome, report.longrepr = "skipped", (str(path), 0, "it needs PyTorch")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return without_pytorch((yield), collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return without_pytorch((yield), item.path)


@pytest.fixture(scope="session")
def deep() -> bool:
    """True for the long form of a test: ./dev test --deep."""
    return os.environ.get("PTO_DEEP", "") == "1"


@pytest.fixture(scope="module")
def few_objects() -> None:
    """Searches for garbage, which a module with it makes often, pass over all that lives before:
    a process that has run other tests has so many objects that a search takes 0.3 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def aten_parts() -> None:
    """The parts that take ATen's calls, and stand before its kernels; the test is left out where
    they cannot be built."""
    pytest.importorskip("torch")
    from pto.adapters import build as libraries
    from pto.adapters.torch import build, direct

    build.build_aten()
    libraries.build(build.fronts())
    if direct._library is None:
        pytest.skip("its part is not built: python -m pto adapters build torch")
    assert libraries.built(build.aten())


def pytest_terminal_summary(terminalreporter):
    """Where the minutes of ./dev test went, above the closing line."""
    if path := os.environ.get(minutes.VARIABLE):
        found = minutes.Minutes.read(Path(path))
        found.tested(
            [r for one in terminalreporter.stats.values() for r in one if hasattr(r, "duration")]
        )
        terminalreporter.write_line(found.table())
