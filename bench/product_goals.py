# SPDX-License-Identifier: Apache-2.0
"""The goals of products, attention and the demo, as a table.

    goals(outcome, hardware())         # the runner's goals of one measured setting

A line says which settings it judges, on which hardware, and how much faster than others ours must
be, or which share of a ceiling it must reach. A ratio that the ceiling of the same run makes
impossible is replaced by a share of that ceiling; so are those that a case names itself.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from bench.rooflines import READ_PACKED
from bench.verdicts import AIM, ALWAYS
from pto import _core
from pto.bench.products import MKL_PACKED, PEERS
from pto.bench.runner import Goal, Outcome, Setting
from pto.ceilings import Peak

Times = dict[str, float]
FMA, TILES, BYTES = "peak (f32)", "peak (bf16 tiles)", "peak (bytes)"
CEILING = "ceiling"  # of the row, whatever its name; that of packed bytes where there are two
SHARE = 0.8  # of the ceiling, where it forbids a ratio
PRODUCT, PRODUCT_ROWS, BEST_OTHER = "product", "product, rows", "best other"
NEEDS = {  # what the table's lines need
    "AMX": "it needs a CPU with AMX",
    "no AMX": "it needs a CPU without AMX",
    "AVX512_BF16": "it needs AVX512_BF16 that is faster than multiply-adds, and no AMX",
    "neither": "it needs a CPU with neither AMX nor fast AVX512_BF16",
    "VNNI": "it needs a CPU with AVX512_VNNI and without AMX",
    "AVX2": "it needs a CPU with AVX2 and without AVX-512",
}


def hardware() -> frozenset[str]:
    """Finds the words of NEEDS that this machine has, as the library chooses its engines."""
    bf16, floats = _core.matmul_layout("bf16"), _core.matmul_layout("f16")
    known = ("AMX", "AVX512_BF16")
    found = {next((name for name in known if name in bf16), "neither")}
    has_quads = Peak("bytes", 1).multiply_adds == 4 * Peak("f32", 1).multiply_adds
    if "AMX" not in found and has_quads:
        found.add("VNNI")
    if "AVX2" in floats:
        found.add("AVX2")
    if "AMX" not in found:
        found.add("no AMX")
    return frozenset(found)


@dataclass(frozen=True)
class Line:
    name: str
    cases: tuple[str, ...]
    goal: Goal
    where: Callable[[Setting], bool] = lambda setting: True
    needs: str = ""  # a word of NEEDS
    when: Callable[[Times], bool] = lambda times: True  # what was measured beside it


def faster(
    theirs: str | tuple[str, ...], at_least: float, kind: str = "", ours: str = "pto"
) -> Goal:
    """Ours takes at most 1 / at_least of their time; a ceiling's name makes it a share."""
    return Goal(ours, theirs, 1 / at_least, kind=kind)


# --- settings ------------------------------------------------------------------------------------


def square(least: int) -> Callable[[Setting], bool]:
    return lambda s: s.size[0] >= least and len(set(s.size)) == 1


def large(s: Setting) -> bool:
    return square(256)(s) and s.threads == 1


def in_type(dtype: str) -> Callable[[Setting], bool]:
    return lambda s: s.dtype == dtype


def few(*rows: int) -> Callable[[Setting], bool]:
    return lambda s: s.size[0] in rows


def length(least: int, most: int, width: int) -> Callable[[Setting], bool]:
    return lambda s: least <= s.size[1] <= most and s.size[2] == width


def cache_bytes(s: Setting) -> int:
    _, kept, tokens, width = s.size
    return 2 * kept * tokens * width * (4 if s.dtype == "f32" else 2)


def is_read(s: Setting) -> bool:
    """Says whether decode is to reach the bandwidth: f32 to 8 heads of q a head, bf16 to 4."""
    return s.size[0] // s.size[1] <= (8 if s.dtype == "f32" else 4)


def small(s: Setting) -> bool:
    return s.threads == 1 and not large(s)


def two(s: Setting) -> bool:
    return s.threads == 2


def spread(s: Setting) -> bool:
    return two(s) and min(s.size) >= 256


def pixels(s: Setting) -> bool:
    return s.size[4] in (1, 3)


def is_weak(times: Times) -> bool:
    """Says whether the best library is below 75 % of the peak of multiply-adds."""
    return min(times[name] for name in PEERS if name in times) * 0.75 > times[FMA]


# --- the table -----------------------------------------------------------------------------------

F32, ODD = "f32, N = 256 to 2048, 1 thread", "f32, N = 16 to 128, skinny, odd, 1 thread"
TWO, SPLIT = "f32, 2 threads", "f32 on AMX"
HALF_AMX, HALF_PAIRS = "bf16 to f32 on AMX", "bf16 with AVX512_BF16, no AMX"
HALF_FLOATS, INT8 = "bf16 and f16 with neither", "int8 to i32"
FEW, INT4 = "1 to 16 rows: f32, bf16, int8", "int4 weights, 1 and 16 rows"
EPILOGUES, CONV = "products with row functions", "conv2d of ResNet-50"
FORWARD, BACKWARD = "attention forward, f32", "attention backward, f32"
HALF_ATTENTION, DECODE = "attention forward, bf16 on AMX", "decode attention"
DEMO, DEMO_BF16, DEMO_INT8 = "the demo, f32", "the demo, bf16", "the demo, int8"

SQUARES, SMALL = ("squares",), ("squares", "odd_shapes")

LINES = (
    Line(F32, SQUARES, faster(PEERS, 1.0, ALWAYS), large),
    Line(F32, SQUARES, faster(FMA, 0.89, AIM), large),
    Line(F32, ("linear",), faster(FMA, 0.92, AIM), large),
    Line(ODD, SMALL, faster(PEERS, 1.2), small, when=is_weak),
    Line(ODD, SMALL, faster(PEERS, 1.0, ALWAYS), small),
    Line(ODD, SMALL, faster(FMA, 0.9), small, when=lambda times: not is_weak(times)),
    Line(TWO, SMALL, faster("one thread", 1.9), spread),
    Line(TWO, SMALL, faster("torch.mm", 1.0), two),
    Line(SPLIT, SQUARES, faster("torch.mm", 1.2), square(128), "AMX"),
    Line(SPLIT, ("linear",), faster(("torch.mm", MKL_PACKED), 1.5), square(128), "AMX"),
    Line(HALF_AMX, ("half_products",), faster("torch", 2.0),
         lambda s: s.dtype == "bf16" and s.size[0] <= 512, "AMX"),
    Line(HALF_AMX, ("half_products",), faster("torch", 1.2),
         lambda s: s.dtype == "bf16" and s.size[0] > 512, "AMX"),
    Line(HALF_AMX, ("half_products",), faster(TILES, 0.6, ours="packed"),
         lambda s: s.dtype == "bf16" and s.size[0] in (256, 512), "AMX"),
    Line(HALF_PAIRS, ("half_products",), faster("f32", 1.6),
         in_type("bf16"), "AVX512_BF16"),
    Line(HALF_PAIRS, ("half_products",), faster("torch", 1.0),
         in_type("bf16"), "AVX512_BF16"),
    Line(HALF_FLOATS, ("half_products",), faster("f32", 0.97), needs="neither"),
    Line(INT8 + " on AMX", ("byte_products",), faster("torch", 2.0), needs="AMX"),
    Line(INT8 + " by VNNI", ("byte_products",), faster(BYTES, 0.85), needs="VNNI"),
    # 145 GOPS at 3.2 GHz, where two multiply-adds of 8 floats a cycle are 102.4 GFLOP/s.
    Line(INT8 + " on AVX2", ("byte_products",), faster(FMA, 145 / 102.4), needs="AVX2"),
    Line(FEW, ("few_rows_f32", "few_rows_bf16", "few_rows_unpacked"), faster(PEERS, 1.0, ALWAYS)),
    Line(FEW, ("linear_int8",), faster(("in bf16", "dense"), 1.0, ALWAYS, "pto bf16"),
         few(1, 4, 16)),
    Line(FEW, ("few_rows_f32", "few_rows_bf16", "linear_int8"),
         faster(CEILING, 0.95, ALWAYS), few(1)),
    Line(FEW, ("few_rows_f32", "few_rows_bf16", "linear_int8"),
         faster(CEILING, 0.85, ALWAYS), few(4, 16)),
    Line(INT4, ("linear_int4",), faster(CEILING, 0.8), few(1, 16)),
    Line(INT4, ("linear_int4",), faster("torch", 1.0), few(1, 16)),
    Line(INT4, ("linear_int4",), faster("in bf16", 1.0, ours="pto bf16"), few(1, 16)),
    Line(INT4, ("linear_int4",), faster("pto dense", 1.0, ours="pto bf16"), few(1, 16)),
    Line(EPILOGUES, ("linear_gelu", "linear_layer_norm"), faster(PRODUCT_ROWS, 1 / 1.03)),
    Line(EPILOGUES, ("linear_gelu",), faster(PRODUCT, 0.97), lambda s: s.size[1] >= 2048),
    Line(EPILOGUES, ("linear_layer_norm",), faster(PRODUCT, 0.93), lambda s: s.size[1] >= 2048),
    Line(CONV, ("conv2d",), faster(("torch", "blocked"), 0.8), pixels),
    Line(FORWARD, ("not_causal",), faster(FMA, 0.80), length(512, 4096, 64)),
    Line(FORWARD, ("not_causal",), faster(FMA, 0.85), length(512, 4096, 128)),
    Line(FORWARD, ("causal",), faster(FMA, 0.70), length(512, 2047, 64)),
    Line(FORWARD, ("causal",), faster(FMA, 0.75), length(512, 2047, 128)),
    Line(FORWARD, ("causal",), faster(FMA, 0.77), length(2048, 4096, 64)),
    Line(FORWARD, ("causal",), faster(FMA, 0.82), length(2048, 4096, 128)),
    Line(FORWARD, ("not_causal", "causal"), faster("torch", 1.0),
         lambda s: s.size[1] >= 512),
    Line(FORWARD, ("causal",), faster("torch", 1.8), lambda s: s.size[1] == 512),
    Line(BACKWARD, ("gradients", "causal_gradients"), faster("torch", 1.2)),
    Line(HALF_ATTENTION, ("not_causal_bf16", "causal_bf16"), faster("torch", 1.5), needs="AMX"),
    Line(DECODE, ("decode",), faster(CEILING, 0.9, ALWAYS),
         lambda s: cache_bytes(s) >= 64e6 and is_read(s)),
    Line(DECODE, ("decode",), faster(CEILING, 0.8, ALWAYS),
         lambda s: cache_bytes(s) >= 64e6 and not is_read(s)),
    Line(DEMO, ("demo",), faster(BEST_OTHER, 1.05, ALWAYS), in_type("f32")),
    Line(DEMO, ("demo_mean",), faster(BEST_OTHER, 1.25, ALWAYS), in_type("f32"), "no AMX"),
    Line(DEMO, ("demo_mean",), faster(BEST_OTHER, 1.8, ALWAYS), in_type("f32"), "AMX"),
    Line(DEMO_BF16, ("demo_mean",), faster(BEST_OTHER, 1.5, ALWAYS), in_type("bf16")),
    Line(DEMO_INT8, ("demo_mean",), faster("onnxruntime", 1.3, ALWAYS), in_type("int8")),
)  # fmt: skip


# --- one outcome ---------------------------------------------------------------------------------


def lines_of(outcome: Outcome) -> list[Line]:
    """The lines that judge a measured setting, on whatever hardware."""
    if not outcome.records:
        return []
    first = outcome.records[0]
    setting = Setting(tuple(first.size), first.dtype, first.threads)
    return [line for line in LINES if first.case in line.cases and line.where(setting)]


def possible(goal: Goal, outcome: Outcome) -> Goal:
    """The goal; or a share of the ceiling, where even the ceiling is less than that faster. As
    fast as another is never impossible."""
    limits = {name: taken for name, taken in outcome.limits().items() if name != PRODUCT}
    theirs = (goal.theirs,) if isinstance(goal.theirs, str) else goal.theirs
    limit = goal.limit_s(outcome.times())
    is_ratio = limit and limits and not set(theirs) & limits.keys() and goal.at_most < 1
    if not is_ratio or limit >= min(limits.values()):
        return goal
    return replace(goal, theirs=tuple(limits), at_most=1 / SHARE)


def goals(outcome: Outcome, here: frozenset[str]) -> list[Goal]:
    """The outcome's own, and those of the lines that this hardware and what was measured allow to
    judge."""
    found, times = [possible(goal, outcome) for goal in outcome.goals], outcome.times()
    for line in lines_of(outcome):
        goal = replace(line.goal, line=line.name)
        if goal.theirs == CEILING:
            is_packed = READ_PACKED in outcome.ceilings
            goal = replace(goal, theirs=READ_PACKED if is_packed else tuple(outcome.ceilings))
        is_here = not line.needs or line.needs in here
        if is_here and goal.limit_s(times) is not None and line.when(times):
            found.append(possible(goal, outcome))
    return found


def needed(outcome: Outcome, here: frozenset[str]) -> list[str]:
    """What other goals of a setting need."""
    words = dict.fromkeys(line.needs for line in lines_of(outcome))
    return [NEEDS[word] for word in words if word and word not in here]


def reasons(cases: Collection[str], here: frozenset[str]) -> dict[str, str]:
    """The names of the lines that judge these cases, and why one may have no row."""
    found: dict[str, str] = {}
    for line in LINES:
        if set(line.cases) & set(cases):
            is_here = not line.needs or line.needs in here
            why = "this run has no such row" if is_here else NEEDS[line.needs]
            if is_here or line.name not in found:
                found[line.name] = why
    return found
