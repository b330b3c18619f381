# SPDX-License-Identifier: Apache-2.0
"""docs/configuration.md has every variable that the sources read, and its defaults are the real."""

import ast
import json
import os
import re
import sys
from pathlib import Path

import children
import environment_reads
import pytest

import pto  # noqa: F401 pto.config

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import configuration  # noqa: E402

PAGE = configuration.PAGE.read_text()
ROWS = configuration.settings()
VARIABLES = {row.variable: row for row in ROWS if row.variable}
ATTRIBUTES = {row.attribute: row for row in ROWS if row.attribute}
SHOWN = """
import json, os, pto
found = {name: getattr(pto.config, name) for name in pto.config.__repr__().replace(" =", "").split()
         if name in type(pto.config).__dict__}
print(json.dumps([found, pto._core.describe_machine()]))
"""
CHANGED = """
import json, os, sys, pto
changed = []
for name, value in json.loads(sys.argv[1]).items():
    before = dict(os.environ)
    setattr(pto.config, name, print if name == "dump" else value)
    if os.environ != before:
        changed.append(name)
print(json.dumps(changed))
"""
OTHER = {"cxx": "some-c++", "cache_dir": "/some/where", "tuned": "a.json:b.json",
         "target": "portable", "threads": 1, "weights": "never", "matmul_precision": "medium",
         "torch_attention": True, "measured": True, "by_size": True,
         "onnxruntime_takes": "all", "interpret": True}  # fmt: skip


def plain_environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in VARIABLES or k in ("PATH", "HOME")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def settings_of(**variables: str) -> tuple[dict, dict[str, str]]:
    """What pto.config and the machine say under these variables of the table alone."""
    done = children.run("-c", SHOWN, env=plain_environment(**variables))
    assert done.returncode == 0, done.stderr
    found, machine = json.loads(done.stdout)
    return found, dict(line.split(": ", 1) for line in machine.splitlines())


def test_the_page_is_that_of_the_table():
    assert configuration.page() == PAGE, "run ./dev docs"


def test_the_table_has_every_variable_that_the_sources_read():
    found, unknown = environment_reads.reads(ROOT)
    assert unknown == []
    assert sorted(found) == sorted(VARIABLES)


def test_no_text_of_the_sources_names_another_variable():
    named = set()
    for folder in ("pto", "compat"):
        for path in (ROOT / folder).rglob("*.[ch]pp"):
            if not path.stem.endswith("_test"):
                named |= set(
                    re.findall(r'"[^"\n]*\b(?:set|unset) (PTO_[A-Z0-9_]+)', path.read_text())
                )
    assert named and named - set(VARIABLES) == set()


def test_pto_config_has_the_attributes_of_the_table():
    found, machine = settings_of()
    assert found.keys() == ATTRIBUTES.keys()
    for name, value in found.items():
        default = ATTRIBUTES[name].default.strip("`")
        if name == "threads":
            assert str(value) == machine["cores"]
        elif name in ("cxx", "cache_dir", "target", "tuned"):
            assert value == ""  # the default is a rule
        elif isinstance(value, bool):
            assert (default, value) == ("off", False)
        else:
            assert str(value) == default
    assert machine["target"] in ATTRIBUTES["target"].value


def test_the_docstring_of_pto_config_names_the_same_variables():
    told = re.findall(r"pto\.config\.(\w+) = .*?# (PTO_\w+)", sys.modules["pto.config"].__doc__)
    assert dict(told) == {n: row.variable for n, row in ATTRIBUTES.items() if row.variable}


def test_a_variable_is_the_first_value_of_its_attribute():
    given = {ATTRIBUTES[name].variable: "1" if value is True else str(value)
             for name, value in OTHER.items() if name != "torch_attention"}  # fmt: skip
    found, _ = settings_of(**given)
    expected = {**OTHER, "torch_attention": False, "dump": None}
    assert found == expected
    assert ATTRIBUTES.keys() == expected.keys()


@pytest.mark.parametrize("name", [
    name for name in OTHER if name not in ("cxx", "cache_dir", "tuned", "target")
])  # fmt: skip
def test_a_variable_with_a_value_that_its_attribute_refuses_is_an_error(name):
    variable = ATTRIBUTES[name].variable
    environment = plain_environment(**{variable: "mayby"})
    done = children.run("-c", "import pto; pto.config.threads", env=environment)
    assert "InvalidValue" in done.stderr and "fix: " in done.stderr
    assert re.search(f"{variable} is ['\"]mayby['\"]", done.stderr)


def test_the_page_says_which_attributes_change_the_environment():
    values = {**OTHER, "dump": None, "torch_attention": False}  # True wants what ./dev builds
    environment = plain_environment(PTO_TORCH_ATTENTION="1")
    done = children.run("-c", CHANGED, json.dumps(values), env=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)) == sorted(configuration.INHERITED)


def bytes_of(text: str) -> float:
    number, unit = re.match(r"([\d.]+) ([KMG]?)B", text).groups()
    return float(number) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[unit]


def test_the_defaults_of_the_machine_are_those_of_the_table():
    _, machine = settings_of()
    assert machine["spin"] == f"{VARIABLES['PTO_SPIN_US'].default} us"
    assert VARIABLES["PTO_STREAM_BYTES"].default == "half of the last cache, at most 64 MB"
    stream = min(bytes_of(machine["last level cache"]) / 2, 64 << 20)
    assert bytes_of(machine["stream from"]) == pytest.approx(stream, rel=1e-3)
    assert VARIABLES["PTO_GRAIN_BYTES"].default == "L2 / 4, from 64 KB to 512 KB"
    grain = min(max(bytes_of(machine["L2"]) / 4, 64 << 10), 512 << 10)
    assert bytes_of(machine["parallel from"]) == pytest.approx(grain, rel=1e-3)
    assert machine["memory pool"] == "256 MB or the recent peak"
    assert VARIABLES["PTO_POOL_BYTES"].default.startswith("256 MB, or the recent peak")


@pytest.mark.parametrize("variable", ["PTO_CACHE_BYTES", "PTO_COMPILE_SECONDS",
                                      "PTO_CPU_SIM_NUM_CORES"])  # fmt: skip
def test_a_number_of_the_table_is_that_of_its_source(variable):
    (file,) = environment_reads.reads(ROOT)[0][variable]
    text = re.search(rf'"{variable}", ([\d <]+)', (ROOT / file).read_text()).group(1)
    number, _, shift = text.partition("<<")
    shown = VARIABLES[variable].default
    amount = bytes_of(shown) if shown.endswith("B") else float(shown)
    assert amount == int(number) << int(shift or 0)


def test_the_number_of_npu_devices_is_that_of_its_source():
    text = (ROOT / "pto/device/npu/stream.cpp").read_text()
    row = VARIABLES["PTO_NPU_DEVICES"]
    assert re.search(r"'\\0'\) return (\d+);", text).group(1) == row.default
    assert row.value == f"1 to {configuration.constant('pto/device/npu/stream.hpp', 'kMaxDevices')}"


def test_limits_of_a_call_are_those_of_the_core():
    from pto import _core

    numbers = {meaning: number for number, meaning in configuration.limits()}
    assert numbers["axes of a tensor"] == _core.MAX_RANK
    assert len(numbers) == 5 + len(configuration.LIMITS)


def test_the_block_of_the_page_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    done = children.run("-c", block, env=plain_environment())
    assert done.returncode == 0, done.stderr
    assert "threads = 1" in done.stdout and "matmul_precision = 'highest'" in done.stdout


CPP = """
std::string environment(const char* name) { return std::getenv(name); }
int64_t number_or(const Environment& get, const char* variable, int64_t least) {
  return get(environment(variable));
}
const int a = number_or(all, "PTO_A", 1);
const char* const kNames[2] = {"PTO_B", "PTO_C"};
void f(int i) { number_or(all, kNames[i], 2); }
"""


def test_the_scan_follows_names_through_functions_and_arrays():
    found, unknown = environment_reads.cpp_reads({"a.cpp": CPP})
    assert sorted(found) == ["PTO_A", "PTO_B", "PTO_C"] and unknown == []
    _, unknown = environment_reads.cpp_reads({"a.cpp": CPP + "int g = number_or(all, made(), 1);"})
    assert len(unknown) == 1


def test_the_scan_finds_each_form_of_python():
    text = "\n".join(["import os", "A = 'PTO_A'", "os.environ.get(A)", "os.environ['PTO_B']",
                      "'PTO_C' in os.environ", "os.getenv('PTO_D', 1)", "os.environ['PTO_E'] = ''",
                      "os.environ[made()]"])  # fmt: skip
    ast.parse(text)
    found, unknown = environment_reads.python_reads("a.py", text)
    assert sorted(found) == ["PTO_A", "PTO_B", "PTO_C", "PTO_D"]
    assert unknown == ["a.py: made()"]
