# SPDX-License-Identifier: Apache-2.0
"""The page of the 64,000-task paged attention: clicks lead from the task with the longest wait to
the line that submits it and to the C++ that runs, as the JSON of the trace says them."""

import json
from pathlib import Path

import numpy as np
import pytest
from studio_browser import SHAPES_MAX, about, all_of, open_page, start, until

import pto

EXAMPLES = Path(__file__).parents[1] / "examples" / "runtime"
PAGE, BLOCKS, HEAD, PAGES_MAX, SEQUENCES = 64, 64, 64, 122, 1032

browser = pytest.fixture(scope="module")(start)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, PAGE * PAGES_MAX, SEQUENCES, np.int32)
    table = rng.integers(0, BLOCKS, (SEQUENCES, PAGES_MAX), np.int32)
    queries = rng.standard_normal((SEQUENCES, HEAD), np.float32)
    keys, values = rng.standard_normal((2, BLOCKS, PAGE, HEAD), np.float32)
    return queries, keys, values, table, lengths


def check_result(out, arrays):
    queries, keys, values, table, lengths = arrays
    for at in (0, SEQUENCES - 1):
        k, v = (x[table[at]].reshape(-1, HEAD)[: lengths[at]].astype("f8") for x in (keys, values))
        weights = np.exp(k @ queries[at] / np.sqrt(HEAD))
        np.testing.assert_allclose(out[at], weights @ v / weights.sum(), atol=1e-5)


def check_longest_wait(browser, folder, line, start_of):
    """Clicks on the task that waited longest: all that the page says of it stands in the JSON."""
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    tasks = [one for one in events if one["ph"] == "X"]
    assert len(tasks) > 64_000
    longest = max(tasks, key=lambda one: one["args"]["waited_us"])
    open_page(browser, folder / "page.html")
    assert browser.title == "paged"
    all_of(browser, "#longest-waits li")[0].click()
    found = about(browser)
    assert int(found["waited_ns"][0]) == round(longest["args"]["waited_us"] * 1e3)
    assert found["task"] == [str(longest["args"]["task"])]
    assert found["statement"] == [longest["name"]] and found["line"] == [longest["args"]["source"]]
    lines = [one.text for one in all_of(browser, ".line.selected") if one.is_displayed()]
    assert any(line(longest["name"]) in one for one in lines)  # that submits it
    assert any(start_of(longest["name"]) in one for one in lines)  # the C++ that runs
    assert until(browser, "studio.shapes()") <= SHAPES_MAX
    producers = found.get("after", [])
    if producers:  # a click on one selects it
        all_of(browser, "#about [data-slice]")[0].click()
        assert about(browser)["task"] == [producers[0].split()[0]]


def test_clicks_lead_from_the_longest_wait_to_the_cpp_that_submits(browser, arrays, tmp_path):
    out = np.empty_like(arrays[0])
    with pto.Runtime(level="chip") as rt:
        kernels = [{"source": EXAMPLES / "attention.cpp", "symbol": one}
                   for one in ("attend_page", "finish")]  # fmt: skip
        rt.register("paged", orch=EXAMPLES / "5_paged_attention.cpp", kernels=kernels)
        rt.trace(tmp_path / "t.json", level=3)
        rt.run("paged", [pto.Arg.output(out), *map(pto.Arg.input, arrays)])
        rt.report().html(tmp_path / "page.html")
    check_result(out, arrays)
    starts = {"attend_page": "void AttendPage(", "finish": "void Finish("}
    check_longest_wait(browser, tmp_path, 'o.submit("{}"'.format, starts.get)


def paged(ctx, args):
    """The orchestration of examples/runtime/5_paged_attention.cpp in Python, on two devices."""
    table, lengths = args["table"], args["lengths"]
    for at, length in enumerate(lengths.tolist()):
        chip = ctx.peers()[at % 2]
        with ctx.scope():
            total, stats = ctx.alloc((HEAD,)), ctx.alloc((2,))
            own = [pto.Arg.inout(total), pto.Arg.inout(stats), pto.Arg.input(args["queries"][at])]
            for begin in range(0, length, PAGE):
                block = int(table[at, begin // PAGE])
                page = [pto.Arg.input(args[name][block]) for name in ("keys", "values")]
                rest = pto.Arg.scalar(min(PAGE, length - begin)), pto.Arg.scalar(int(begin == 0))
                ctx.submit(chip, "one page", [*own, *page, *rest])
            done = [pto.Arg.input(total), pto.Arg.input(stats)]
            ctx.submit(chip, "the end", [pto.Arg.output(args["out"][at]), *done])


def test_clicks_lead_from_the_longest_wait_to_the_python_that_submits(browser, arrays, tmp_path):
    symbols = {"one page": "attend_page", "the end": "finish"}
    source = EXAMPLES / "attention.cpp"
    kernels = {name: pto.compile(kernels=[{"source": source, "symbol": symbol}])
               for name, symbol in symbols.items()}  # fmt: skip
    names = ("queries", "keys", "values")
    with pto.Runtime(level="host", devices=[0, 1], memory=1 << 30) as rt:
        rt.register("paged", orch=paged, kernels=kernels)
        shared = {name: rt.alloc(x.shape).numpy() for name, x in zip(names, arrays, strict=False)}
        for name, x in zip(names, arrays, strict=False):
            shared[name][...] = x
        shared["out"] = rt.alloc((SEQUENCES, HEAD)).numpy()
        rt.trace(tmp_path / "t.json", level=3)
        rt.run("paged", shared | {"table": arrays[3], "lengths": arrays[4]})
        rt.report().html(tmp_path / "page.html")
        check_result(shared["out"], arrays)
    starts = {"one page": "void AttendPage(", "the end": "void Finish("}
    check_longest_wait(browser, tmp_path, 'ctx.submit(chip, "{}"'.format, starts.get)
