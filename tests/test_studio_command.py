# SPDX-License-Identifier: Apache-2.0
"""python -m pto studio: pages of calls and packages, and how it refuses what it cannot show."""

import ctypes
import os
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from test_package_c import library
from test_studio import HOSTILE, softmax_rows

import pto
from pto import container, pages, studio, studio_command
from pto.__main__ import main
from pto.errors import Error, InvalidValue, MissingFile
from pto.studio import layout


@pto.jit
def doubled(x):
    return x + x


LONG = "1+" * 9999 + "1"


@pytest.mark.parametrize(
    "text",
    ["f.py:", "f.py:f", "f.py:f(**x)", "f.py:1 +", "f.py:x = 1", ":f(x)", f"f.py:f({LONG})"],
)
def test_a_text_that_names_no_call_is_refused(text):
    with pytest.raises(InvalidValue, match="names no call"):
        studio_command.html_of_call(text, "page.html")


def test_a_call_of_a_file_becomes_a_page(tmp_path):
    pytest.importorskip("bokeh")
    file = tmp_path / "doubled.py"
    file.write_text(
        "import numpy as np\nimport pto\n\nx = np.ones((4, 8), np.float32)\n\n\n"
        "@pto.jit\ndef doubled(x, by=2.0):\n    return x * by\n\n\ndef plain(x): ...\n"
    )
    studio_command.html_of_call(f"{file}:doubled(x[1:3], by=3.0)", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "return x * by" in text and "Roofline" in text
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(text)
    assert any(tag == "script" for tag, _ in tags)
    assert not any(one.keys() & {"src", "href"} for _, one in tags)  # nothing is fetched
    with pytest.raises(InvalidValue, match="name 'y' is not defined"):
        studio_command.html_of_call(f"{file}:doubled(y)", tmp_path / "page.html")
    with pytest.raises(MissingFile, match="none.py: there is no such file"):
        studio_command.html_of_call(f"{tmp_path}/none.py:doubled(x)", tmp_path / "page.html")
    with pytest.raises(InvalidValue, match="name an operator") as caught:
        studio_command.html_of_call(f"{file}:plain(x)", tmp_path / "page.html")
    assert "plain in" in str(caught.value) and "of type function" in str(caught.value)
    with pytest.raises(InvalidValue, match="is no jitted function"):
        studio_command.html_of_call(f"{file}:plain(x)", tmp_path / "page.html")
    with pytest.raises(Error, match="cannot be written"):
        studio_command.html_of_call(f"{file}:doubled(x)", tmp_path / "none" / "page.html")


SHOWN = """
import numpy as np
import pto

x = np.ones((4, 8), np.float32)


@pto.jit
def doubled(x, by=2.0):
    return x * by


@pto.op("studio_squared(Tensor x) -> Tensor")
class Squared:
    def build(x):
        return x * x
"""


def test_a_call_of_a_module_or_of_an_operator_becomes_a_page(tmp_path, monkeypatch):
    pytest.importorskip("bokeh")
    (tmp_path / "shown_module.py").write_text(SHOWN)
    monkeypatch.chdir(tmp_path)
    assert studio_command.write("shown_module:doubled(x)") == "shown_module.html"
    assert "return x * by" in (tmp_path / "shown_module.html").read_text()
    studio_command.write("shown_module:Squared(x)", "squared.html")
    text = (tmp_path / "squared.html").read_text()
    assert "return x * x" in text and "Roofline" in text
    with pytest.raises(InvalidValue, match="f32\\[2.5\\] has no sizes"):
        studio_command.write("shown_module:doubled(f32[2.5])", "page.html")
    for kind in ("f32", "i64"):
        studio_command.write(f"shown_module:doubled({kind}[64, 128], by=2)", f"{kind}.html")
        assert f"{kind}[s0, s1]" in (tmp_path / f"{kind}.html").read_text()


@pytest.mark.parametrize(
    ("what", "kind", "says"),
    [("no_such_module:f(x)", InvalidValue, "studio no_such_module: ModuleNotFoundError: No"),
     ("f(x)", InvalidValue, "module:softmax(x)"),
     ("json:loads('1')", InvalidValue, "in json is no jitted function"),
     ("json:nothing()", InvalidValue, "name 'nothing' is not defined"),
     ("json:loads.nothing()", InvalidValue, "no attribute 'nothing'"),
     ("json.loads", MissingFile, "write a call: softmax.py:softmax")],
)  # fmt: skip
def test_what_the_command_cannot_show_is_named(what, kind, says, tmp_path):
    with pytest.raises(kind, match=re.escape(says)):
        studio_command.write(what, str(tmp_path / "page.html"))


EMPTY = '{"traceEvents": [{"ph": "M", "name": "process_name", "args": {"name": "half \\ud83d"}}]}'


@pytest.mark.parametrize(
    ("page", "kind", "says"),
    [("t.json", InvalidValue, "would replace the file that it shows"),
     ("link.html", InvalidValue, "would replace the file that it shows"),
     ("a\0b.html", Error, "cannot be written to"), (7, TypeError, "html: the path is the int 7"),
     (b"p.html", TypeError, "html: the path is")],
)  # fmt: skip
def test_a_page_goes_to_a_file_of_its_own(page, kind, says, tmp_path):
    pytest.importorskip("bokeh")
    shown = tmp_path / "t.json"
    shown.write_text(EMPTY)
    (tmp_path / "link.html").symlink_to(shown)
    with pytest.raises(kind, match=says) as caught:
        pages.html(shown, os.path.join(tmp_path, page) if isinstance(page, str) else page)
    assert isinstance(caught.value, Error) and shown.read_text() == EMPTY
    pages.html(shown, tmp_path / "page.html")
    assert "half " in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("what", ["kernels.pto", "shown.py:doubled(x)"])
def test_a_page_does_not_replace_what_the_command_shows(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / what.partition(":")[0]
    file.write_text(SHOWN)
    with pytest.raises(InvalidValue, match="would replace the file that it shows"):
        studio_command.write(what, str(file))
    assert file.read_text() == SHOWN


def test_a_source_that_is_not_there_is_named(tmp_path):
    (tmp_path / "t.json").write_text(EMPTY)
    with pytest.raises(MissingFile, match="--source none.py: there is no such file or folder"):
        studio_command.write(str(tmp_path / "t.json"), "", ["none.py"])


@pytest.mark.parametrize(
    ("content", "says"),
    [("x = 1\nraise SystemExit(7)", "ends.py:2: studio ends.py: SystemExit: 7"),
     ("x = 1 / 0", "ends.py:1: studio ends.py: ZeroDivisionError: division by zero"),
     ("x = = 1", "ends.py:1: studio ends.py: SyntaxError: invalid syntax")],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ends.py", "ends"])
def test_code_that_does_not_run_is_named(content, says, name, tmp_path, monkeypatch):
    (tmp_path / "ends.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "ends", raising=False)
    with pytest.raises(InvalidValue) as caught:
        studio_command.write(f"{name}:f(x)", "page.html")
    assert str(caught.value).startswith(says.replace("studio ends.py", f"studio {name}"))


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [("", TypeError, "doubled() missing a required argument: 'x'\n  why: the signature is doub"),
     ("x, by=2, at=3", TypeError, "doubled() got an unexpected keyword argument 'at'\n  why"),
     ("f32[10**9, 10**9]", InvalidValue, "studio: f32[10 ** 9, 10 ** 9]: "),
     ("f32[1, 10**24]", InvalidValue, "studio: f32[1, 10 ** 24]: ValueError: "),
     ("x[99]", InvalidValue, "studio: x[99]: IndexError: "),
     ("exit(3)", InvalidValue, "studio: exit(3): SystemExit: 3")],
)  # fmt: skip
def test_arguments_that_make_no_call_are_named(arguments, kind, says, tmp_path):
    (tmp_path / "shown.py").write_text(SHOWN.partition("@pto.op")[0])
    with pytest.raises(kind, match=re.escape(says)) as caught:
        studio_command.write(f"{tmp_path}/shown.py:doubled({arguments})", str(tmp_path / "p.html"))
    assert isinstance(caught.value, Error)


def page_of(path):
    """The document of a package's page."""
    return studio.document_of(studio_command.of_package(path))


def test_a_package_shows_its_header_and_the_texts_that_it_carries(tmp_path):
    x = np.ones((4, 8), np.float32)
    out = np.zeros_like(x)
    softmax_rows.package(tmp_path / "plain.pto", (x, out))
    softmax_rows.package(tmp_path / "texts.pto", (x, out), texts=True)
    plain, found = page_of(tmp_path / "plain.pto"), page_of(tmp_path / "texts.pto")
    for one in (plain, found):
        tables = dict(one.tables)
        assert ["kind", "a jitted function"] in tables["Package"]
        assert tables["Functions"][1][:3] == ["softmax_rows", "x, out", "1"]
        assert tables["Calls"][1][0] == "softmax_rows(x: f32[s0, s1], out: f32[s2, s3])"
    assert "texts=True" in plain.notes[0] and plain.stages == [] and plain.sources == {}
    assert found.notes == [] and "def softmax_rows" in next(iter(found.sources.values()))
    explained = softmax_rows.explain(x, out)
    assert [text for _, text in found.cpp] == [explained.cpp]
    assert [text for _, text in found.stages] == list(explained.levels.values())
    (step,) = explained.steps_of("kernel")
    at = next(at for at, one in enumerate(found.kinds) if one.name == step.title)
    assert found.kinds[at].lines == step.lines
    shown = layout._panes(found)
    linked = re.compile(rf"data-kinds='(\d+ )*{at}[ ']")
    own = [line for line in shown.split("<span") if linked.search(line)]
    assert any(f"int32_t {step.name}(" in line for line in own)  # C++
    assert any("pto.amax" in line for line in own) and any("div" in line for line in own)
    np.testing.assert_array_equal(pto.load(tmp_path / "texts.pto").variants,
                                  pto.load(tmp_path / "plain.pto").variants)  # fmt: skip


def test_a_package_of_several_functions_links_each_to_its_own_texts(tmp_path):
    x = np.ones((4, 8), np.float32)
    every = {pto.ops.gelu: [(x,)], pto.ops.matmul: [(x, x.T.copy())], doubled: [(x,), (x[:1],)]}
    pto.package(every, tmp_path / "f.pto", "portable,avx2", texts=True)
    found = page_of(tmp_path / "f.pto")
    names = [row[0] for row in dict(found.tables)["Calls"][1:]]
    assert len(names) == 4 and [name for name, _ in found.cpp] == names
    assert all(row[1:] == ["portable,avx2", "yes"] for row in dict(found.tables)["Calls"][1:])
    for (name, text), other in zip(found.cpp, [*found.cpp[2:], *found.cpp[:2]], strict=True):
        lines = text.splitlines()
        own = {at for line in layout._bodies(lines, found, name).values() for at in line}
        assert all(found.about(at)["cpp"] == name for at in own)
        assert not layout._bodies(lines, found, other[0])


def test_packages_of_tasks_and_weights_are_tables(tmp_path):
    header = {"abi": [1, 3], "name": "t", "kernels": [{"name": HOSTILE, "func_id": 7}]}
    container.save(tmp_path / "t.pto", container.content_of("tasks", header, [b"code"]))
    found = page_of(tmp_path / "t.pto")
    assert dict(found.tables)["Kernels"] == [["name", "func_id"], [HOSTILE, "7"]]
    assert ["bytes of code or data", "4"] in dict(found.tables)["Package"]
    assert "no texts" in found.notes[0] and "<script" not in layout._tables(found)


@pytest.mark.parametrize("texts", ["!", "AAAA", 7, "eJwrAQAA", "eJyrrgUAAXUA+Q=="])
def test_texts_that_no_package_has_are_refused(tmp_path, texts):
    header = {"name": "f", "target": "avx2", "parameters": ["x"],
              "variants": [{"name": "f(x)", "texts": texts}]}  # fmt: skip
    container.save(tmp_path / "f.pto", container.content_of("program", header, []))
    with pytest.raises(InvalidValue, match="f.pto has a header that save"):
        page_of(tmp_path / "f.pto")


def test_the_command_packages_texts(tmp_path, monkeypatch, capsys):
    file = tmp_path / "f.pto"
    for options in ([], ["--texts"]):
        command = ["pto", "package", str(file), "gelu(f32[:, :])", *options]
        monkeypatch.setattr("sys.argv", command)
        assert main() == 0
        assert bool(page_of(file).cpp) == bool(options)


def test_c_opens_a_package_with_texts(tmp_path):
    x = np.ones((4, 8), np.float32)
    doubled.package(tmp_path / "f.pto", (x,), texts=True)
    found = library()
    program = ctypes.c_void_p(found.pto_program_open(str(tmp_path / "f.pto").encode()))
    found.pto_program_describe.restype = ctypes.c_char_p
    assert found.pto_program_describe(program) == b"doubled(x: f32[s0, s1])"
    found.pto_program_close(program)
