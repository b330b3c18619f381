# SPDX-License-Identifier: Apache-2.0
"""./dev: what its commands do, without setting the machine up again."""

import importlib.machinery
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BEFORE = """# A golden that nobody has blessed yet.
graph g(%x: f32[s0]) -> (f32[s0]) {
  %0 = neg(%x) : f32[s0]
  %1 = exp(%x) : f32[s0]
  return %1
}
=== remove_dead_nodes
"""


@pytest.fixture
def dev():
    loader = importlib.machinery.SourceFileLoader("dev", str(ROOT / "dev"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
    loader.exec_module(module)
    return module


def test_bless_writes_what_the_passes_make_and_leaves_the_rest(dev):
    if not (dev.BUILD / "default" / "passes_test").exists():
        pytest.skip("the C++ tests are not built: ./dev build")
    folder = ROOT / "tests" / "ir"
    known = {path: path.read_text() for path in folder.glob("*.ir")}
    new = folder / "not_blessed_yet.ir"
    new.write_text(BEFORE)
    try:
        assert dev.bless() == 0
        found = {path: path.read_text() for path in folder.glob("*.ir")}
    finally:
        new.unlink()
        for path, text in known.items():
            path.write_text(text)
    blessed = found.pop(new)
    assert blessed.startswith(BEFORE) and "exp" in blessed[len(BEFORE) :]
    assert "neg" not in blessed[len(BEFORE) :]
    assert found == known


def test_a_group_that_cannot_be_installed_is_said_and_left_out(dev, monkeypatch, capsys):
    def fails(code):
        def pip(group):
            raise SystemExit(code)

        return pip

    monkeypatch.setattr(dev, "pip", fails("error: no network"))
    dev.pip_if_possible("demo-onnx")
    out = capsys.readouterr().out
    assert "error: no network" in out and "going on without onnxruntime==" in out
    monkeypatch.setattr(dev, "pip", fails(130))
    with pytest.raises(SystemExit):
        dev.pip_if_possible("demo-onnx")


def test_the_usage_names_every_command(dev):
    for command in dev.COMMANDS:
        assert f"./dev {command} " in dev.__doc__
    assert dev.main(["help"]) == 0 and dev.main(["no such command"]) == 2


@pytest.mark.parametrize("line", ["build --foo", "fmt --chek", "bless ir", "docs --help"])
def test_what_a_command_does_not_take_is_said_before_it_does_anything(dev, line, monkeypatch):
    monkeypatch.setattr(dev, "lock", lambda: pytest.fail("it began"))
    with pytest.raises(SystemExit) as ended:
        dev.main(line.split())
    assert f"error: ./dev {line}\n  why: it takes " in str(ended.value)


@pytest.mark.parametrize("preset", ["asan", "tsan"])
def test_a_build_with_sanitizers_compiles_nothing_without_them(dev, preset):
    """Loops that none of its tests calls are the objects of the build without sanitizers."""
    commands = dev.BUILD / preset / "compile_commands.json"
    if not commands.exists():
        pytest.skip(f"the {preset} build is not configured")
    compiled = json.loads(commands.read_text())
    assert [one["file"] for one in compiled if "-fno-sanitize=all" in one["command"]] == []
    if preset == "tsan":  # its tests run no attention
        assert [one["file"] for one in compiled if "/attention_" in one["file"]] == []
