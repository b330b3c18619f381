# SPDX-License-Identifier: Apache-2.0
"""The page: plots by Bokeh, texts whose lines know their statements, and studio.js that links them.

Everything that comes from a trace is data to the page: texts are escaped, and the script reads JSON
in which no tag can end.
"""

import html
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pto.errors import Failure
from pto.studio import analysis
from pto.studio.document import Document

HERE = Path(__file__).parent
LONGEST = 10  # entries of a list of slices
IDLE = (("busy", "#4878a8", "busy"), ("ready", "#d98b3a", "idle while a task was ready"),
        ("none", "#c8c8c8", "idle: no task was ready"))  # fmt: skip
_ENTRY = re.compile(r"PTO_KERNEL\((\w+),\s*(\w+)")  # a kernel's name, and its function
_PLACE = re.compile(r'@ |"(?P<file>[^"\n]+)":(?P<line>\d+)')


def page(document: Document) -> str:
    """The text of an HTML file. Raises Failure where Bokeh is not installed."""
    try:
        from bokeh.embed import components
        from bokeh.resources import INLINE
    except ImportError:
        raise Failure(
            "studio: Bokeh is not installed", "a page holds its plots and scripts",
            "pip install bokeh",
        ) from None  # fmt: skip
    analysis.nest(document)
    waited, path = analysis.waits(document), analysis.critical_path(document)
    plots = _plots(document)
    script, divisions = components(plots)
    parts = {
        "TITLE": html.escape(document.name or "a run"),
        "STYLE": (HERE / "studio.css").read_text(),
        "BOKEH": INLINE.render(),
        "LISTS": _lists(document, waited, path),
        "PLOTS": "\n".join(f"<section id='{name}'><h2>{_PLOTS[name]}</h2>{division}</section>"
                           for name, division in divisions.items()),
        "PANES": _panes(document),
        "DATA": _data(document, waited, path),
        "SCRIPT": script + f"<script>{(HERE / 'studio.js').read_text()}</script>",
    }  # fmt: skip
    text = (HERE / "page.html").read_text()
    return re.sub(r"@@(\w+)@@", lambda found: parts[found.group(1)], text)


_PLOTS = {"timeline": "Timeline", "workers": "Workers", "memory": "Memory", "roofline": "Roofline"}


# --- plots ----------------------------------------------------------------------------------------


def _plots(document: Document) -> dict[str, Any]:
    timeline = _timeline(document)
    plots = {"timeline": timeline, "workers": _workers(document, timeline.x_range)}
    if (series := analysis.memory(document)) is not None:
        plots["memory"] = _memory(series, timeline.x_range)
    if points := _roofline_points(document):
        plots["roofline"] = _roofline(document, points)
    return plots


def rows(document: Document) -> list[tuple[int, int]]:
    """(lane, depth) of each row of the timeline, from the top."""
    deepest: dict[int, int] = defaultdict(int)
    for one in document.slices:
        deepest[one.lane] = max(deepest[one.lane], one.depth)
    return [(lane, depth) for lane in range(len(document.lanes))
            for depth in range(deepest[lane] + 1)]  # fmt: skip


def _figure(height: int, **options: Any) -> Any:
    """A plot over time, whose axis begins where that of the others does."""
    from bokeh.models import NumeralTickFormatter
    from bokeh.plotting import figure

    plot = figure(height=height, sizing_mode="stretch_width", output_backend="canvas",
                  tools="xpan,xwheel_zoom,xbox_zoom,reset", active_scroll="xwheel_zoom",
                  toolbar_location="right", min_border_left=130, **options)  # fmt: skip
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
    return plot


def _timeline(document: Document) -> Any:
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool, TapTool

    lines = rows(document)
    begin, end = analysis.span(document)
    plot = _figure(80 + 22 * min(len(lines), 24), x_range=(begin, end), y_range=(len(lines), 0),
                   x_axis_label="microseconds")  # fmt: skip
    plot.yaxis.ticker = [at + 0.5 for at, (_, depth) in enumerate(lines) if depth == 0]
    plot.yaxis.major_label_overrides = {
        at + 0.5: document.lanes[lane] for at, (lane, depth) in enumerate(lines) if depth == 0
    }
    plot.ygrid.visible = False
    columns = ("left", "right", "top", "bottom", "color", "alpha", "label", "place")
    drawn = ColumnDataSource({name: [] for name in columns}, name="drawn")
    boxes = plot.quad(left="left", right="right", top="top", bottom="bottom", color="color",
                      alpha="alpha", line_width=0, source=drawn)  # fmt: skip
    boxes.nonselection_glyph = None
    arrows = ColumnDataSource({name: [] for name in ("x0", "y0", "x1", "y1")}, name="arrows")
    plot.segment("x0", "y0", "x1", "y1", color="#202020", line_width=1, source=arrows)
    plot.add_tools(HoverTool(renderers=[boxes], tooltips=[("", "@label")]),
                   TapTool(renderers=[boxes]))  # fmt: skip
    drawn.selected.js_on_change("indices", CustomJS(code="studio.tapped(cb_obj.indices)"))
    for end_of in ("start", "end"):
        plot.x_range.js_on_change(end_of, CustomJS(code="studio.zoomed()"))
    plot.x_range.name = "time"
    return plot


def _workers(document: Document, x_range: Any) -> Any:
    series = analysis.workers(document)
    plot = _figure(150, x_range=x_range, y_range=(0, max(len(document.lanes), 1)),
                   y_axis_label="lanes")  # fmt: skip
    names = [name for name, _, _ in IDLE]
    plot.varea_stack(names, x="time", color=[color for _, color, _ in IDLE],
                     legend_label=[label for _, _, label in IDLE],
                     source={name: series[name] for name in ("time", *names)})  # fmt: skip
    plot.legend.orientation = "horizontal"
    plot.add_layout(plot.legend[0], "above")
    return plot


def _memory(series: dict[str, Any], x_range: Any) -> Any:
    from bokeh.models import NumeralTickFormatter

    plot = _figure(130, x_range=x_range, y_axis_label="bytes")
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0] b")
    plot.step("time", "bytes", mode="after", color="#7a4ea0", line_width=2, source=series)
    return plot


def _roofline_points(document: Document) -> list[dict[str, Any]]:
    """The operations a byte, and operations a second, of each statement."""
    places: dict[str, int] = {}
    for at, kind in enumerate(document.kinds):
        places.setdefault(kind.name, at)
    found = []
    for one in document.statements.values():
        time = one.get("total_s", 0) / max(one.get("calls", 0), 1)
        if one.get("bytes") and one.get("operations") and time > 0:
            found.append(
                {
                    "x": one["operations"] / one["bytes"],
                    "y": one["operations"] / time,
                    "label": one["title"],
                    "place": places.get(one["title"], -1),
                    "share": f"{one['limit_s'] / time:.0%}" if one.get("limit_s") else "-",
                }
            )
    return found  # fmt: skip


def _roofline(document: Document, points: list[dict[str, Any]]) -> Any:
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool, TapTool
    from bokeh.plotting import figure

    plot = figure(height=320, sizing_mode="stretch_width", x_axis_type="log", y_axis_type="log",
                  x_axis_label="operations a byte", y_axis_label="operations a second",
                  tools="pan,wheel_zoom,reset", output_backend="canvas")  # fmt: skip
    most = document.rates.get("operations")
    for name, dash in (("bytes", "solid"), ("near_bytes", "dashed")):
        if most and (rate := document.rates.get(name)):
            turn = most / rate
            low = min(turn, *(one["x"] for one in points)) / 4
            high = max(turn, *(one["x"] for one in points)) * 4
            plot.line([low, turn, high], [low * rate, most, most], color="#404040", line_width=2,
                      line_dash=dash)  # fmt: skip
    source = ColumnDataSource({key: [one[key] for one in points] for key in points[0]},
                              name="points")  # fmt: skip
    dots = plot.scatter("x", "y", size=11, color="#b0413e", source=source)
    dots.nonselection_glyph = None
    tips = [("", "@label"), ("of its roofline", "@share")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tips), TapTool(renderers=[dots]))
    source.selected.js_on_change("indices", CustomJS(code="studio.chosen(cb_obj.indices)"))
    return plot


# --- texts ----------------------------------------------------------------------------------------


def _lists(document: Document, waited: list[float], path: list[int]) -> str:
    """Lists of slices to click: what waited longest, what took longest, the longest chain."""
    places = range(len(document.slices))
    took = [one.end - one.start for one in document.slices]
    lists = {
        "Longest waits": sorted(places, key=waited.__getitem__, reverse=True)[:LONGEST],
        "Longest": sorted(places, key=took.__getitem__, reverse=True)[:LONGEST],
        "Critical path": path[: 10 * LONGEST],
    }
    shown = {"Longest waits": waited, "Longest": took, "Critical path": took}
    found = []
    for title, chosen in lists.items():
        items = "".join(
            f"<li data-slice='{at}'>{html.escape(document.kinds[document.slices[at].kind].name)} "
            f"<b>{document.slices[at].number}</b> {_time(shown[title][at])}</li>"
            for at in chosen)  # fmt: skip
        name = title.lower().replace(" ", "-")
        if chosen:
            found.append(f"<details open><summary>{title}</summary>"
                         f"<ol id='{name}'>{items}</ol></details>")  # fmt: skip
    kinds = "".join(f"<li data-kind='{at}'>{html.escape(kind.name)}"
                    f"<small>{html.escape(', '.join(kind.lines))}</small></li>"
                    for at, kind in enumerate(document.kinds))  # fmt: skip
    found.append("<details open><summary>Statements</summary>"
                 f"<ol id='kinds'>{kinds}</ol></details>")  # fmt: skip
    return "".join(found)


def _time(microseconds: float) -> str:
    for unit, scale in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if microseconds >= scale:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds * 1e3:.3g} ns"


def _panes(document: Document) -> str:
    by_line: dict[str, set[int]] = defaultdict(set)
    for at, kind in enumerate(document.kinds):
        for line in kind.lines:
            by_line[line].add(at)
    panes = [("source", file, _source(file, text, by_line, document))
             for file, text in sorted(document.sources.items())]  # fmt: skip
    panes += [("cpp", name, _cpp(text.splitlines(), by_line, document))
              for name, text in document.cpp]  # fmt: skip
    panes += [("stage", name, _stage(text, by_line)) for name, text in document.stages]
    return "".join(
        f"<details class='pane {kind}' {'open' if not at or kind != panes[at - 1][0] else ''}>"
        f"<summary>{html.escape(name)}</summary><pre>{body}</pre></details>"
        for at, (kind, name, body) in enumerate(panes))  # fmt: skip


def _line(number: int | None, text: str, kinds: Iterable[int], name: str = "") -> str:
    chosen = " ".join(map(str, sorted(kinds)))
    place = f" data-line='{html.escape(name)}'" if name else ""
    shown = f"<i>{number}</i>" if number is not None else ""
    known = f" data-kinds='{chosen}'" if chosen else ""
    return f"<span class='line'{place}{known}>{shown}{html.escape(text)}\n</span>"


def _source(file: str, text: str, by_line: dict[str, set[int]], document: Document) -> str:
    lines = text.splitlines()
    inside = _bodies(lines, document) if Path(file).suffix in (".cpp", ".hpp", ".h") else {}
    return "".join(
        _line(at, line, by_line.get(f"{file}:{at}", set()) | inside.get(at, set()), f"{file}:{at}")
        for at, line in enumerate(lines, 1))  # fmt: skip


def _cpp(lines: list[str], by_line: dict[str, set[int]], document: Document) -> str:
    inside = _bodies(lines, document)
    return "".join(_line(at, line, inside.get(at, set()) | _named(line, by_line))
                   for at, line in enumerate(lines, 1))  # fmt: skip


def _named(line: str, by_line: dict[str, set[int]]) -> set[int]:
    """The kinds whose source line a text in quotes names."""
    return _at(re.findall(r'"([^"]*:\d+)"', line), by_line)


def _bodies(lines: list[str], document: Document) -> dict[int, set[int]]:
    """The kinds whose function each line of C++ belongs to."""
    symbols: dict[str, set[int]] = defaultdict(set)
    for at, kind in enumerate(document.kinds):
        about = document.statements.get(kind.name, {})
        symbols[str(about.get("symbol") or kind.name.rpartition(" ")[2])].add(at)
    for line in lines:
        if (entry := _ENTRY.match(line)) and entry.group(1) in symbols:
            symbols[entry.group(2)] |= symbols[entry.group(1)]
    found: dict[int, set[int]] = {}
    current: set[int] = set()
    for at, line in enumerate(lines, 1):
        opened = re.search(r"\b(\w+)\s*\([^;]*$", line)
        if opened and not line[:1].isspace() and opened.group(1) in symbols:
            current = symbols[opened.group(1)]
        if current:
            found[at] = current
        if line.startswith("}"):
            current = set()
    return found


def _stage(text: str, by_line: dict[str, set[int]]) -> str:
    found = []
    for line in text.splitlines():
        places = [f"{one['file']}:{one['line']}" for one in _PLACE.finditer(line) if one["file"]]
        found.append(_line(None, line, _at(places, by_line)))
    return "".join(found)


def _at(places: Iterable[str], by_line: dict[str, set[int]]) -> set[int]:
    """The kinds of these lines, whose paths may be longer than those that kinds know."""
    kinds: set[int] = set()
    for place in places:
        name = place.rpartition("/")[2]
        kinds.update(*(own for line, own in by_line.items()
                       if line.endswith(name) and place.endswith(line)))  # fmt: skip
    return kinds


# --- data -----------------------------------------------------------------------------------------


def _data(document: Document, waited: list[float], path: list[int]) -> str:
    """The slices for the script, column by column; times are whole nanoseconds since the begin."""
    begin, _ = analysis.span(document)
    places = {row: at for at, row in enumerate(rows(document))}
    slices = document.slices
    columns = {
        "begin": begin,
        "start": [round((one.start - begin) * 1e3) for one in slices],
        "took": [round((one.end - one.start) * 1e3) for one in slices],
        "waited": [_finite(time) for time in waited],
        "row": [places[one.lane, one.depth] for one in slices],
        "kind": [one.kind for one in slices],
        "number": [one.number for one in slices],
        "iteration": [one.iteration for one in slices],
        "edges": [part for edge in document.edges for part in edge],
        "critical": path,
        "kinds": [{"name": kind.name, "lines": kind.lines,
                   "about": document.statements.get(kind.name, {})} for kind in document.kinds],
        "lanes": document.lanes,
        "dropped": document.dropped,
    }  # fmt: skip
    return json.dumps(columns, separators=(",", ":")).replace("<", "\\u003c")


def _finite(time: float) -> int:
    return round(time * 1e3) if math.isfinite(time) else 0
