# SPDX-License-Identifier: Apache-2.0
"""compat/infini: programs of the public vendor-neutral library compile and run, without Python."""

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")
from pto import build_config  # noqa: E402
from pto.adapters.torch import build  # noqa: E402
from pto.aten import infini_headers  # noqa: E402
from pto.aten.outputs_last import operators, public_name  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted((ROOT / "tests/infini").glob("*.cpp"))
NAMES = (ROOT / "tests/aten_names.txt").read_text().split()
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
WITHOUT_KERNEL = {"Hspmm", "SparseSampledAddmm", "ConvDepthwise2d", "MkldnnAdaptiveAvgPool2d",
                  "CudnnConvolution", "BatchNormElemt"}  # fmt: skip
# Prints the classes without an implementation for the CPU.
SHOW_CLASSES = """#include <infini/ops.h>
template <class Class>
void show(const char* name) {
  if (Class::active_implementation_indices(infini::ops::Device()).empty()) std::puts(name);
}
"""


@pytest.fixture(scope="module")
def folders():
    build.build_aten()
    return [f"-I{one}" for one in (build.aten_include(), ROOT, build_config.compat_dir())]


def compiled(folders, source, *flags):
    command = ["g++", "-std=c++17", "-O0", *WARNINGS, *folders, *flags, source]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda one: one.stem)
def test_a_program_compiles_without_warnings_and_runs(folders, source, tmp_path):
    program = tmp_path / "program"
    made = compiled(folders, source, "-o", program, "-ldl", "-pthread")
    assert made.returncode == 0, made.stderr
    environment = {**os.environ, "PATH": "", "PYTHONPATH": ""}
    made = subprocess.run([program], capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stdout + made.stderr


def test_every_required_name_has_a_class_that_knows_whether_it_can_run(folders, tmp_path):
    known, classes = operators(), {}
    for name in map(public_name, NAMES):
        spaces, one = known[name].class_name
        classes["::".join(("infini", "ops", *spaces, one))] = known[name]
        assert (build.aten_include() / f"infini/ops/{name}.h").exists()
    rows = "".join(f'  show<{one}>("{one}");\n' for one in sorted(classes))
    source, program = tmp_path / "classes.cpp", tmp_path / "classes"
    source.write_text(f"{SHOW_CLASSES}int main() {{\n{rows}}}\n")
    made = compiled(folders, source, "-o", program, "-ldl")
    assert made.returncode == 0, made.stderr
    made = subprocess.run([program], capture_output=True, text=True)
    assert made.returncode == 0 and len(classes) > 500, made.stderr
    without = {c for c, one in classes.items() if not any(s.record.cpu for s in one.signatures)}
    assert set(made.stdout.split()) == without
    assert {one.rpartition("::")[2] for one in without} == WITHOUT_KERNEL


def test_a_call_that_no_signature_takes_is_refused_by_the_compiler(folders, tmp_path):
    source = tmp_path / "wrong.cpp"
    source.write_text(
        "#include <infini/ops/sort.h>\n"
        "void f(infini::ops::Tensor x) { infini::ops::Sort::Call(x, true, 1.5, x, x); }\n"
    )
    made = compiled(folders, source, "-fsyntax-only")
    assert made.returncode != 0
    assert "no signature of this operator takes these arguments" in made.stderr


def test_headers_are_written_once_for_a_pytorch(tmp_path):
    identity = ("2.13.0", "a build")
    infini_headers.write(tmp_path, Path("lib"), identity)
    file = tmp_path / "infini/ops/add.h"
    file.write_text("kept")
    infini_headers.write(tmp_path, Path("lib"), identity)
    assert file.read_text() == "kept"
    infini_headers.write(tmp_path, Path("lib"), ("2.13.0", "another"))
    assert "class Add" in file.read_text()
    assert '"lib"' in (tmp_path / "infini/ops/torch_folder.h").read_text()


@pytest.mark.parametrize(
    "name, text, overloads",
    [
        ("add", "Tensor input, Tensor other, Scalar alpha=1, Tensor out", "add.out add.Tensor"),
        ("gather", "Tensor input, Tensor index, int dim, bool sparse_grad=False, Tensor out",
         "gather.out gather"),
        ("linalg_qr", "Tensor A, str mode='reduced', Tensor Q, Tensor R",
         "linalg_qr.out linalg_qr"),
        ("rand", "int[] size, Generator? generator, Tensor out", "rand.generator_out None"),
        ("linear", "Tensor input, Tensor weight, Tensor? bias=None, Tensor out",
         "linear.out linear"),
        ("pow", "Scalar input, Tensor exponent, Tensor out", "pow.Scalar_out pow.Scalar"),
        ("scatter", "Tensor input, Tensor index, Scalar value, int dim, Tensor out",
         "scatter.value_out scatter.value"),
        ("split", "Tensor input, int split_size, int dim=0, Tensor[] out", "None split.Tensor"),
        ("set", "Tensor input, Tensor source, int storage_offset, int[] size, int[] stride=[]",
         "set_.source_Tensor_storage_offset None"),
    ],
)  # fmt: skip
def test_inputs_stand_before_attributes_and_outputs_last(name, text, overloads):
    rows = {
        str(one): " ".join(r.full_name if r else "None" for r in (one.out, one.functional))
        for one in operators()[name].signatures
    }
    assert rows.get(text) == overloads, rows


@pytest.mark.parametrize(
    "name, public, spaces, one",
    [
        ("add_", "add", (), "Add"),
        ("_softmax", "internal_softmax", ("internal",), "Softmax"),
        ("special_erfinv", "special_erfinv", ("special",), "Erfinv"),
        ("_linalg_svd", "internal_linalg_svd", ("internal", "linalg"), "Svd"),
        ("_fft_c2c", "internal_fft_c2c", ("internal", "fft"), "C2c"),
        ("adaptive_max_pool2d", "adaptive_max_pool2d", (), "AdaptiveMaxPool2d"),
    ],
)
def test_names_and_namespaces_are_the_librarys(name, public, spaces, one):
    assert public_name(name) == public
    assert operators()[public].class_name == (spaces, one)
