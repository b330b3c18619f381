# SPDX-License-Identifier: Apache-2.0
"""The processes that tests fork from one that has imported torch."""

import os

import children
import pytest


def test_a_child_imports_pto_itself_where_the_package_is_installed(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "installed-1.dist-info").mkdir()
    (tmp_path / "installed-1.dist-info/METADATA").write_text("Name: installed\nVersion: 1\n")
    (tmp_path / "installed-1.dist-info/entry_points.txt").write_text(
        "[torch.backends]\npto = pto.adapters.torch_autoload:autoload\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    children._origin.cache_clear()  # the next one finds the package
    try:
        program = "import sys; print(*(name in sys.modules for name in ('torch', 'pto')))"
        assert children.run("-c", program).stdout == "True False\n"
        program = "import pto; print(pto.config.cache_dir)"
        done = children.run("-c", program, env={**os.environ, "PTO_CACHE_DIR": "/some/where"})
        assert done.stdout == "/some/where\n", done.stderr
    finally:
        children._origin.cache_clear()


def test_a_child_that_hangs_is_killed_and_the_next_one_answers_for_itself():
    assert children.run("-c", "print(1)").stdout == "1\n"
    origin = children._origin(os.getpid())
    origin.channel.settimeout(0.5)
    with pytest.raises(TimeoutError):
        children.run("-c", "import time; time.sleep(1000)")
    assert origin.process.wait(10) == -9
    assert children.run("-c", "print(2)").stdout == "2\n"


def test_a_child_searches_no_object_of_torch_for_garbage():
    pytest.importorskip("torch")
    program = "import gc; print(gc.get_freeze_count() > 10 * len(gc.get_objects()))"
    assert children.run("-c", program).stdout == "True\n"
