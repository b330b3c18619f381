# SPDX-License-Identifier: Apache-2.0
"""Tables of ratios from records. A ratio is another's time over ours: above 1, ours is faster.

`torch` here is the better of PyTorch eager and torch.compile, both into the shared buffer where
PyTorch can; `reference` the better of its two kinds of stores.
"""

from pto.bench.products import PEERS
from pto.bench.report import duration
from pto.bench.runner import Goal, Outcome
from pto.bench.timing import geometric_mean

TORCH = ("torch_out", "compile_out", "torch")
REFERENCES = ("reference", "reference_stream")


def best(seconds: dict[str, float], names: tuple[str, ...]) -> float | None:
    found = [seconds[n] for n in names if n in seconds]
    return min(found) if found else None


def ratios(outcome: Outcome) -> dict[str, float]:
    """Our kernel against PyTorch, the reference and the copy; our fresh output against eager's."""
    seconds = outcome.seconds()
    found: dict[str, float] = {}
    ours = seconds.get("pto")
    if not ours:
        return found
    for name, names in (("torch", TORCH), ("reference", REFERENCES)):
        theirs = best(seconds, names)
        if theirs:
            found[name] = theirs / ours
    ceiling = outcome.records[0].ceiling_s
    if ceiling:
        found["copy"] = ceiling / ours
    if "pto_fresh" in seconds and "torch" in seconds:
        found["fresh"] = seconds["torch"] / seconds["pto_fresh"]
    return found


COLUMNS = ["pto", "pto_fresh", "torch", "torch_out", "compile_out"]
COLUMNS += ["reference", "reference_stream"]
HEADER = (
    f"{'case':<20}{'size':>12} {'type':>5}{'thr':>4} |"
    + "".join(f"{name.replace('reference', 'ref'):>12}" for name in COLUMNS)
    + f" |{'vs torch':>9}{'vs ref':>8}{'of copy':>8}{'fresh':>7}"
)


def row(outcome: Outcome) -> str:
    """One line of the kernel table."""
    first, seconds, found = outcome.records[0], outcome.seconds(), ratios(outcome)
    size = "x".join(map(str, first.size))
    times = "".join(f"{duration(seconds[n]) if n in seconds else '-':>12}" for n in COLUMNS)
    parts = [
        f"{found['torch']:8.2f}x" if "torch" in found else f"{'-':>9}",
        f"{found['reference']:7.2f}x" if "reference" in found else f"{'-':>8}",
        f"{found['copy']:7.0%} " if "copy" in found else f"{'-':>8}",
        f"{found['fresh']:5.1f}x" if "fresh" in found else f"{'-':>6}",
    ]
    head = f"{first.case:<20}{size:>12} {first.dtype:>5}{first.threads:>4} |{times} |"
    return head + "".join(parts)


def width(name: str) -> int:
    """Of the column of a peer."""
    return max(10, len(name) + 2)


class Shares:
    """A table of times and shares of the best ceiling of the same run, which ends the row: ours,
    those of `peers`, and those of other ways of ours, with which nothing is compared. `most` is
    what the best peer leaves: the ratio of a kernel that reaches the ceiling."""

    def __init__(
        self, title: str, ceiling: str, peers: tuple[str, ...], others: tuple[str, ...] = ()
    ) -> None:
        self._peers, self._columns = peers, (*peers, *others)
        self.header = (
            f"{title:<17}{'size':>18} {'type':>5}{'thr':>4} |{'pto':>11}{'of ' + ceiling:>11} |"
            + "".join(f"{name:>{width(name)}}" for name in self._columns)
            + f" |{'vs best':>9}{'most':>8}  {ceiling}"
        )

    def row(self, outcome: Outcome) -> str:
        first, seconds, limits = outcome.records[0], outcome.seconds(), outcome.limits()
        size, ours = "x".join(map(str, first.size)), seconds["pto"]
        theirs = best(seconds, self._peers)
        versus, most = (
            f"{theirs / time:.2f}x" if theirs else "-" for time in (ours, first.ceiling_s)
        )
        others = "".join(
            f"{f'{first.ceiling_s / seconds[name]:.1%}' if name in seconds else '-':>{width(name)}}"
            for name in self._columns
        )
        return (
            f"{first.case:<17}{size:>18} {first.dtype:>5}{first.threads:>4} |{duration(ours):>11}"
            f"{first.ceiling_s / ours:>11.1%} |{others} |{versus:>9}{most:>8}"
            f"  {min(limits, key=limits.get)}"
        )


class Rooflines:
    """A table of times, shares of the roofline, and ratios. The roofline is the larger of reading
    and computing, whose peaks add up; each row ends with its terms, the one that binds first."""

    PEERS = ("torch", "torch.compile")
    header = (
        f"{'operator':<18}{'size':>6} {'thr':>4} |{'pto':>11}{'roofline':>11}{'share':>8} |"
        + "".join(f"{'vs ' + name:>{width(name) + 3}}" for name in PEERS)
        + " | most  terms"
    )

    def row(self, outcome: Outcome) -> str:
        first, seconds, limits = outcome.records[0], outcome.seconds(), outcome.limits()
        read = limits.pop("read")
        computed, ours = sum(limits.values()), seconds["pto"]
        roofline, size = max(read, computed), "x".join(map(str, first.size))
        peers = "".join(
            f"{f'{seconds[name] / ours:.2f}x' if name in seconds else '-':>{width(name) + 3}}"
            for name in self.PEERS
        )
        terms = [f"read {duration(read)}"]
        terms.insert(
            computed < read,
            " + ".join(f"{name} {duration(taken)}" for name, taken in limits.items()),
        )
        most = f"{seconds['torch'] / roofline:.1f}x" if "torch" in seconds else "-"
        return (
            f"{first.case:<18}{size:>6} {first.threads:>4} |{duration(ours):>11}"
            f"{duration(roofline):>11}{roofline / ours:>8.1%} |{peers} |{most:>5}"
            f"  {'; '.join(terms)}"
        )


PRODUCTS = Shares("product", "peak", PEERS)
UNPACKED = Shares("product", "peak", PEERS, ("one thread",))
FEW_ROWS = Shares("product", "limit", PEERS)
HALVES = Shares("product", "peak", ("torch",), ("packed", "f32"))
INTEGERS = Shares("product", "peak", ("torch",))
EPILOGUES = Shares("layer", "product", ("torch",), ("product, rows",))
BYTES = Shares("product", "peak", ("torch",), ("dynamic", "f32"))
QUANTISED = Shares("layer", "limit", ("torch", "in bf16", "dense"), ("pto bf16", "pto dense"))
CONVOLUTIONS = Shares("layer", "peak", ("torch", "blocked"))
ATTENTION = Shares("attention", "peak", ("torch",))
DECODE = Shares("attention", "read", ("torch",))
MODELS = Rooflines()


def plain(outcome: Outcome) -> list[str]:
    """Lines of a case without a kernel table: size, contender, median, p10 to p90, a ceiling's for
    the work of the case; then the goals."""
    lines = []
    for r in outcome.records:
        size, calls = "x".join(map(str, r.size)), outcome.ceilings.get(r.contender, 1)
        median, low, high = (duration(s * calls) for s in (r.median_s, r.p10_s, r.p90_s))
        lines.append(f"{r.case:<20}{size:>15}  {r.contender:<18}{median:>10}   ({low} to {high})")
    return lines + [against(goal, outcome.times()) for goal in outcome.goals]


def against(goal: Goal, times: dict[str, float]) -> str:
    """The measured ratios beside the wanted ones."""
    ours, limit = times[goal.ours], goal.limit_s(times)
    if goal.theirs:
        name = goal.theirs if isinstance(goal.theirs, str) else " or ".join(goal.theirs)
        found, wanted = f"{ours / limit * goal.at_most:.2f}x of {name}", f"{goal.at_most}x"
    else:
        found, wanted = duration(ours), duration(goal.at_most)
    reached = "reached" if ours <= limit else "MISSED "
    return f"  {reached} {goal.ours}: {found}, goal at most {wanted}"


def summary(outcomes: list[Outcome]) -> list[str]:
    """Geometric means over the f32 kernels, and the rows behind their best competitor."""
    rows = [o for o in outcomes if o.records and o.records[0].dtype == "f32" and ratios(o)]
    lines = []
    for name, against in (("torch", "PyTorch's best"), ("reference", "the C++ reference")):
        values = [ratios(o)[name] for o in rows if name in ratios(o)]
        if values:
            lines.append(
                f"geometric mean against {against}: {geometric_mean(values):.2f}x"
                f" (lowest {min(values):.2f}x, {len(values)} rows)"
            )
    behind = []
    for o in rows:
        lowest = min(ratios(o).get(n, 9.0) for n in ("torch", "reference"))
        if lowest < 0.97:
            r = o.records[0]
            behind.append(f"{r.case} {tuple(r.size)} threads {r.threads}: {lowest:.2f}x")
    return lines + (["below 0.97x: " + "; ".join(behind)] if behind else [])
