# SPDX-License-Identifier: Apache-2.0
"""The studio's texts: pages of tasks show the Python that submits and the C++ that runs, whatever
its kernels are called; and a trace cannot make a page show other files of this machine."""

import linecache
import os
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from test_studio import slice_of, trace

import pto
from pto import pages
from pto.studio import analysis, layout

ADD = """#include <pto/pto-inst.hpp>
using namespace pto;

void AddOne(float* y, const float* x) {
  Tile<TileType::Vec, float, 1, 64> tile;
  TLOAD(tile, GlobalTensor(x));
  TADDS(tile, tile, 1.0f);
  TSTORE(GlobalTensor(y), tile);
}
PTO_KERNEL(add_one, AddOne)
"""
ORCH = """#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  pto::Orchestration o(rt, args);
  o.submit("first", {o.out(o.output(1)), o.in(o.input(0))});
  return 0;
}
"""
PUBLIC = """extern "C" void kernel_entry(int64_t* args) {
  float* y = reinterpret_cast<float*>(args[0]);
  y[0] = 1;
}
"""


def selected(document, name):
    """The lines of each text that a click on the slices of this name selects."""
    analysis.nest(document)
    (kind,) = (at for at, one in enumerate(document.kinds) if one.name == name)
    found = {}
    for pane in layout._panes(document).split("<summary>")[1:]:
        lines = re.findall(r"<span class='line'[^>]*data-kinds='([\d ]*)'>(.*?)\n</span>", pane)
        own = [re.sub(r"<i>\d*</i>", "", text) for at, text in lines if str(kind) in at.split()]
        found[pane.partition("<")[0]] = [*map(unescape, own)]
    return found


def document_of(rt):
    report = rt.report()
    sources = [*report.origin.sources.items(), *report.folders]
    return pages.read(report.trace, sources, report.origin.functions)


def test_a_program_given_as_text_shows_both_texts(tmp_path):
    x, y = np.zeros(64, np.float32), np.empty(64, np.float32)
    with pto.Runtime(level="chip") as rt:
        kernels = [{"source": ADD, "name": "first"}]
        rt.register("other", orch=ORCH, kernels=[{"source": PUBLIC, "name": "first"}])
        rt.register("texts", orch=ORCH, kernels=kernels)
        rt.trace(tmp_path / "t.json")
        rt.run("texts", [pto.Arg.input(x), pto.Arg.output(y)])
        found = selected(document_of(rt), "first")
        assert sorted(found) == ["first.cpp", "texts.cpp"] and y.tolist() == [1] * 64
        assert found["first.cpp"] == ADD.splitlines()[3:9]
        assert found["texts.cpp"] == ORCH.splitlines()[3:4]
        rt.register("texts", pkg=pto.compile(orch=ORCH, kernels=kernels, name="package"))
        rt.run("texts", [pto.Arg.input(x), pto.Arg.output(y)])
        found["package.cpp"] = found.pop("texts.cpp")
        assert found == selected(document_of(rt), "first")


def test_kernels_of_one_function_name_are_told_apart(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.cpp").write_text(f"// {name}\n{PUBLIC}")
    orch = ORCH.replace('"first"', '"two"')
    with pto.Runtime(level="chip") as rt:
        sources = [{"source": tmp_path / f"{name}.cpp"} for name in ("one", "two")]
        rt.register("public", orch=orch, kernels=sources)
        rt.trace(tmp_path / "t.json")
        rt.run("public", [pto.Arg.input(np.zeros(1)), pto.Arg.output(np.zeros(1, np.float32))])
        found = selected(document_of(rt), "two")
    assert found["two.cpp"] == PUBLIC.splitlines() and found["one.cpp"] == []


def test_files_of_one_name_in_two_folders_are_both_shown(tmp_path):
    for folder in ("aic", "aiv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kernel.cpp").write_text(f"// {folder}\n{PUBLIC}")
    with pto.Runtime(level="chip") as rt:
        sources = [{"source": tmp_path / folder / "kernel.cpp", "name": name}
                   for folder, name in (("aic", "other"), ("aiv", "first"))]  # fmt: skip
        rt.register("public", orch=ORCH, kernels=sources)
        rt.trace(tmp_path / "t.json")
        rt.run("public", [pto.Arg.input(np.zeros(1)), pto.Arg.output(np.zeros(1, np.float32))])
        found = selected(document_of(rt), "first")
    assert found["first/kernel.cpp"] == PUBLIC.splitlines() and found["kernel.cpp"] == []


def submitted(ctx, args):
    parts = pto.Arg.output(args["y"]), pto.Arg.input(args["x"])
    for name, step in (("first", 1), ("second", -1)):  # an orchestration takes its input first
        ctx.submit(0, name, parts[::step])


def run_on_a_device(orch, folder):
    kernel = pto.compile(kernels=[{"source": ADD}])
    program = pto.compile(orch=ORCH, kernels=[{"source": ADD, "name": "first"}], name="inner")
    other = pto.compile(kernels=[{"source": ADD.replace("1.0f", "2.0f")}])  # kernel_0.cpp too
    with pto.Runtime(level="host", devices=[0]) as rt:
        rt.register("host", orch=orch, kernels={"other": other, "first": kernel, "second": program})
        rt.trace(folder / "t.json")
        rt.run("host", {"x": np.zeros(64, np.float32), "y": np.empty(64, np.float32)})
        return document_of(rt)


def test_tasks_of_devices_show_the_python_that_submits_and_the_cpp_that_runs(tmp_path):
    document = run_on_a_device(submitted, tmp_path)
    line = "        ctx.submit(0, name, parts[::step])"
    first, second = selected(document, "first"), selected(document, "second")
    name = Path(__file__).name
    assert first[name] == second[name] == [line]
    assert [file for file, lines in first.items() if lines] == [name, "first/kernel_0.cpp"]
    assert first["first/kernel_0.cpp"] == ADD.splitlines()[3:9]
    assert [file for file, lines in second.items() if lines] == [name, "inner.cpp"]


def test_an_orchestration_of_a_notebook_shows_its_cell(tmp_path):
    cell = str(tmp_path / "ipykernel_7" / "1234.py")  # no such file: IPython keeps the text
    text = (
        "def orch(ctx, args):\n    submit(ctx, args)\n\n\n"
        + "def submit(ctx, args):\n"
        + ('    ctx.submit(0, "first", [pto.Arg.output(args["y"]), pto.Arg.input(args["x"])])\n')
    )
    names = {"pto": pto}
    exec(compile(text, cell, "exec"), names)
    linecache.cache[cell] = (len(text), None, text.splitlines(True), cell)
    try:
        found = selected(run_on_a_device(names["orch"], tmp_path), "first")
    finally:
        del linecache.cache[cell]
    assert len(found["1234.py"]) == 1 and "ctx.submit(0" in found["1234.py"][0]


def test_a_trace_shows_no_files_but_sources(tmp_path):
    (tmp_path / "secret").write_text("password\n")
    (tmp_path / "key.pem").write_text("password\n")
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("secret", "key.pem", "pipe.py", "/dev/zero", "../etc/passwd", ".py", "a\0b.py"):
        for path in (name, str(tmp_path / name)):
            document = pages.read(trace([slice_of(0, 0, 4, "k", lines=[f"{path}:1"])]), [tmp_path])
            assert document.sources == {}, path


@pytest.mark.parametrize("suffix", sorted(pages.SUFFIXES))
def test_a_trace_shows_sources(tmp_path, suffix):
    (tmp_path / f"a{suffix}").write_text("text\n")
    document = pages.read(trace([slice_of(0, 0, 4, "k", lines=[f"a{suffix}:1"])]), [tmp_path])
    assert document.sources == {f"a{suffix}": "text\n"}
