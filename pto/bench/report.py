# SPDX-License-Identifier: Apache-2.0
"""Shows what was measured: a table with bars in a terminal, and a picture.

In use:

    comparison = Comparison.of(measure(CASES["matmul"], setting))
    print("\\n".join(table(comparison, "rows x depth x columns")))
    picture([comparison], ["rows x depth x columns"], "matmul.png")
"""

import importlib.util
from dataclasses import dataclass

from pto.bench.runner import Measurement, Outcome
from pto.bench.timing import geometric_mean
from pto.errors import Failure

OURS = "pto"
BAR = 25  # characters of the ceiling's
EIGHTHS = " ▏▎▍▌▋▊▉"
NOISY = 1.3  # p90 over p10


def duration(seconds: float) -> str:
    """Three digits with a unit: 1.23 us, 45.6 ms."""
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            value = seconds * scale
            return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"
    return f"{seconds:.2f} s"


def bar(part: float, has_blocks: bool) -> str:
    """A line of blocks, as long as a part of the whole line; longer parts are cut."""
    length = min(max(part, 0.0), 1.0) * BAR
    if not has_blocks:
        return "#" * round(length)
    eighths = round(length * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def shape(size: list[int] | tuple[int, ...]) -> str:
    return "x".join(map(str, size))


@dataclass(frozen=True)
class Comparison:
    """One setting: our record, those of the peers, and the name and time of the best ceiling."""

    ours: Measurement
    peers: list[Measurement]  # the fastest first
    ceiling: str
    ceiling_s: float

    @staticmethod
    def of(outcome: Outcome) -> "Comparison | None":
        """None where ours was wrong and not measured."""
        records = {r.contender: r for r in outcome.records}
        ours = records.pop(OURS, None)
        if not ours:
            return None
        times = outcome.limits()
        for name in times:
            del records[name]
        ceiling = min(times, key=lambda name: times[name])
        peers = sorted(records.values(), key=lambda r: r.median_s)
        return Comparison(ours, peers, ceiling, times[ceiling])

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours; None without a peer."""
        return self.peers[0].median_s / self.ours.median_s if self.peers else None

    def title(self, axes: str) -> str:
        r = self.ours
        threads = f"{r.threads} thread{'s' * (r.threads > 1)}"
        return f"{r.case} {shape(r.size)} ({axes}), {r.dtype}, {threads}"

    def verdict(self) -> list[str]:
        share = f"{self.ceiling_s / self.ours.median_s:.0%} of the ceiling"
        versus = "no peer was measured"
        if self.peers:
            versus = f"{self.ratio:.2f}x the best peer ({self.peers[0].contender})"
        lines = [f"pto: {versus}, {share}"]
        if any(r.p90_s > NOISY * r.p10_s for r in (self.ours, *self.peers[:1])):
            lines.append("the samples differ much: other processes use the cores, measure again")
        return lines


def table(one: Comparison, axes: str, encoding: str | None = "utf-8") -> list[str]:
    """A heading, a line for each contender and the ceiling, the verdict."""
    has_blocks = (encoding or "").lower().replace("-", "") == "utf8"
    unit = one.ours.unit
    lines = [
        one.title(axes),
        f"  {'':<18}{'median':>10}{'p10 to p90':>22}{unit:>10}{'of ceiling':>12}{'pto is':>9}",
    ]

    def line(name: str, seconds: float, spread: str, versus: str) -> str:
        part, rate = one.ceiling_s / seconds, one.ours.work / seconds
        drawn = bar(part, has_blocks)
        numbers = f"{duration(seconds):>10}{spread:>22}{rate:>10.4g}{part:>12.0%}{versus:>9}"
        return f"  {name:<18}{numbers}  {drawn}".rstrip()

    for r in [one.ours, *one.peers]:
        spread = f"{duration(r.p10_s)} to {duration(r.p90_s)}"
        versus = "" if r is one.ours else f"{r.median_s / one.ours.median_s:.2f}x"
        lines.append(line(r.contender, r.median_s, spread, versus))
    lines.append(line(one.ceiling, one.ceiling_s, "", ""))
    return [*lines, *(f"  {text}" for text in one.verdict())]


def summary(comparisons: list[Comparison]) -> list[str]:
    """The geometric mean of several ratios to the best peer, and the least."""
    ratios = [(c.ratio, c.ours) for c in comparisons if c.ratio]
    if len(ratios) < 2:
        return []
    least, at = min(ratios, key=lambda pair: pair[0])
    place = f"{at.case} {shape(at.size)}, threads {at.threads}"
    mean = geometric_mean([ratio for ratio, _ in ratios])
    return [f"pto against the best peer: geometric mean {mean:.2f}x, least {least:.2f}x ({place})"]


# --- pictures ------------------------------------------------------------------------------------


def require_matplotlib() -> None:
    if not importlib.util.find_spec("matplotlib"):
        raise Failure(
            "bench: --png needs matplotlib, which is not installed",
            "it draws the picture; nothing else here needs it",
            "pip install matplotlib, or leave --png out and take --json",
        )


def picture(comparisons: list[Comparison], axes: list[str], path: str) -> None:
    """Draws the rates of each setting as bars, with the ceiling as a line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [1 + 0.35 * (2 + len(c.peers)) for c in comparisons]
    figure = Figure(figsize=(8, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    plots = figure.subplots(len(comparisons), squeeze=False, height_ratios=heights)
    for (plot,), one, names in zip(plots, comparisons, axes, strict=True):
        records = [one.ours, *one.peers]
        rates = [r.work / r.median_s for r in records]
        below = [rate - r.work / r.p90_s for rate, r in zip(rates, records, strict=True)]
        above = [r.work / r.p10_s - rate for rate, r in zip(rates, records, strict=True)]
        colours = ["tab:orange", *["tab:blue"] * len(one.peers)]
        names_of = [r.contender for r in records]
        plot.barh(names_of, rates, xerr=[below, above], color=colours, capsize=2)
        plot.axvline(one.ours.work / one.ceiling_s, color="black", label=one.ceiling)
        plot.invert_yaxis()
        plot.set_title(one.title(names), fontsize="medium", loc="left")
        plot.set_xlabel(one.ours.unit)
        plot.legend(fontsize="small")
    figure.savefig(path, format="png", dpi=150)
