# SPDX-License-Identifier: Apache-2.0
"""The page: plots by Bokeh, texts whose lines know their statements, and studio.js that links them.

Everything that comes from a trace is data to the page: texts are escaped, and the script reads JSON
in which no tag can end.
"""

import html
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pto.errors import Failure
from pto.sources import CPP_SUFFIXES
from pto.studio import analysis
from pto.studio.document import Document

HERE = Path(__file__).parent
LONGEST, LISTED, POINTS_MAX, ROWS_SEEN = 10, 100, 200, 24  # entries, points, rows at first
IDLE = (("busy", "#4878a8", "busy"), ("ready", "#d98b3a", "idle while a task was ready"),
        ("none", "#c8c8c8", "idle: no task was ready"))  # fmt: skip
_ENTRY = re.compile(r"PTO_KERNEL\((\w+),\s*(\w+)")  # a kernel's name, and its function
_PLACE = re.compile(r'"([^"\n]+)":(\d+)')
_PLOTS = {  # by name: the title, and what the page says where the trace does not know it
    "timeline": ("Timeline", "The trace has no slices: nothing ran."),
    "workers": ("Workers", "The trace has no slices: nothing ran."),
    "memory": ("Memory", "The trace does not say which bytes are held. The report of a jitted "
               "function does, f.report(*args).html(path), and so does rt.trace(path) of tasks for "
               "which the runtime allocates."),
    "roofline": ("Roofline", "The trace does not say what statements compute and move. The report "
                 "of a jitted function does, f.report(*args).html(path)."),
    "path": ("Critical path", "The trace has no dependencies. rt.trace(path, level=3) has them."),
}  # fmt: skip


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
    path = analysis.critical_path(document)  # before the others: it knows waits
    waited, series = analysis.waits(document), analysis.workers(document)
    points, moves = _roofline_points(document)
    plots = _plots(document, series, points)
    script, divisions = components(plots) if plots else ("", {})
    if moves:
        shown = _list("Moved bytes", moves[:LISTED], len(moves))
        divisions["roofline"] = divisions.get("roofline", "") + shown
    divisions |= {"path": ""} if path else {}
    parts = {
        "TITLE": html.escape(document.name or "a run"),
        "STYLE": (HERE / "studio.css").read_text(),
        "BOKEH": INLINE.render(),
        "LISTS": _lists(document, waited, path, series["lanes"]),
        "PLOTS": _tables(document) + _sections(document, divisions),
        "PANES": _panes(document),
        "DATA": _data(document, waited, path),
        "SCRIPT": script + f"<script>{(HERE / 'studio.js').read_text()}</script>",
    }  # fmt: skip
    return re.sub(r"@@(\w+)@@", lambda found: parts[found[1]], (HERE / "page.html").read_text())


def _sections(document: Document, divisions: dict[str, str]) -> str:
    """The plots, and what is not known; a page of tables shows no run."""
    chosen = divisions if document.tables else _PLOTS
    unknown = {name: f"<p>{html.escape(_PLOTS[name][1])}</p>" for name in chosen}
    return "\n".join(f"<section id='{name}'><h2>{_PLOTS[name][0]}</h2>{shown}</section>"
                     for name, shown in (unknown | divisions).items() if shown)  # fmt: skip


def _tables(document: Document) -> str:
    """Notes and tables; a row that begins with the name of a text selects its statements."""
    found = [f"<p>{html.escape(note)}</p>" for note in document.notes]
    own: dict[str, list[str]] = defaultdict(list)
    for at in range(len(document.kinds)):
        own[document.about(at).get("cpp", "")].append(str(at))
    for title, rows in document.tables:
        lines = []
        for row in rows:
            kinds = own[row[0]] if row and row[0] else []
            known = f" data-kinds='{' '.join(kinds)}'" if kinds else ""
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
            lines.append(f"<tr{known}>{cells}</tr>")
        found.append(f"<h2>{html.escape(title)}</h2><table>{''.join(lines)}</table>")
    return "".join(found)


def _plots(document: Document, series: dict[str, Any], points: list[dict]) -> dict[str, Any]:
    from bokeh.models import BoxAnnotation

    plots = {}
    if document.slices:
        plots["timeline"] = timeline = _timeline(document)
        plots["workers"] = _workers(document, series, timeline.x_range)
        if analysis.held(document):
            plots["memory"] = _memory(timeline.x_range)
        mark = BoxAnnotation(name="mark", visible=False, fill_color="#d98b3a", fill_alpha=0.2)
        for plot in plots.values():
            plot.add_layout(mark)  # the time of what is selected
    if points:
        plots["roofline"] = _roofline(document, points)
    return plots


def rows(document: Document) -> list[tuple[int, int]]:
    """(lane, depth) of each row of the timeline, from the top."""
    deepest: dict[int, int] = defaultdict(int)
    for one in document.slices:
        deepest[one.lane] = max(deepest[one.lane], one.depth)
    every = range(len(document.lanes))
    return [(lane, depth) for lane in every for depth in range(deepest[lane] + 1)]


def _figure(height: int, **options: Any) -> Any:
    """A plot over time, whose axis begins where that of the others does."""
    from bokeh.models import NumeralTickFormatter
    from bokeh.plotting import figure

    options.setdefault("tools", "xpan,xwheel_zoom,xbox_zoom,reset")
    plot = figure(height=height, sizing_mode="stretch_width", output_backend="canvas",
                  active_scroll="xwheel_zoom", toolbar_location="right", min_border_left=130,
                  **options)  # fmt: skip
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
    return plot


def _timeline(document: Document) -> Any:
    from bokeh.models import ColumnDataSource, CustomJS, FixedTicker, HoverTool, TapTool

    count = len(rows(document))
    zoom = {"tools": "pan,xwheel_zoom,ywheel_zoom,box_zoom,reset"} if count > ROWS_SEEN else {}
    plot = _figure(80 + 22 * min(count, ROWS_SEEN), x_range=analysis.span(document),
                   y_range=(count, 0), x_axis_label="microseconds", **zoom)  # fmt: skip
    plot.yaxis.ticker = FixedTicker(ticks=[])  # studio.js sets it
    plot.yaxis.name, plot.x_range.name, plot.y_range.name = "lanes", "time", "rows"
    plot.ygrid.visible = False
    columns = ("left", "right", "top", "bottom", "color", "alpha", "critical", "label")
    drawn = ColumnDataSource({name: [] for name in columns}, name="drawn")
    boxes = plot.quad(left="left", right="right", top="top", bottom="bottom", color="color",
                      fill_alpha="alpha", line_alpha="critical", line_color="#e00000",
                      line_width=2, source=drawn)  # fmt: skip
    boxes.nonselection_glyph = None
    arrows = ColumnDataSource({name: [] for name in ("x0", "y0", "x1", "y1")}, name="arrows")
    plot.segment("x0", "y0", "x1", "y1", color="#202020", line_width=1, source=arrows)
    plot.add_tools(HoverTool(renderers=[boxes], tooltips=[("", "@label")]),
                   TapTool(renderers=[boxes]))  # fmt: skip
    drawn.selected.js_on_change("indices", CustomJS(code="studio.tapped(cb_obj.indices)"))
    for one, end in itertools.product((plot.x_range, plot.y_range), ("start", "end")):
        one.js_on_change(end, CustomJS(code="studio.zoomed()"))
    return plot


def _workers(document: Document, series: dict[str, Any], x_range: Any) -> Any:
    from bokeh.models import CustomJS

    plot = _figure(150, x_range=x_range, y_range=(0, max(len(document.lanes), 1)),
                   y_axis_label="lanes")  # fmt: skip
    names = [name for name, _, _ in IDLE]
    plot.varea_stack(names, x="time", color=[color for _, color, _ in IDLE],
                     legend_label=[label for _, _, label in IDLE],
                     source={name: series[name] for name in ("time", *names)})  # fmt: skip
    plot.legend.orientation = "horizontal"
    plot.add_layout(plot.legend[0], "above")
    plot.js_on_event("tap", CustomJS(code="studio.at(cb_obj.x, false)"))
    return plot


def _memory(x_range: Any) -> Any:
    from bokeh.models import ColumnDataSource, CustomJS, DataRange1d, NumeralTickFormatter

    plot = _figure(130, x_range=x_range, y_range=DataRange1d(start=0), y_axis_label="bytes")
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0] d")
    plot.step("time", "bytes", mode="after", color="#7a4ea0", line_width=2,
              source=ColumnDataSource({"time": [], "bytes": []}, name="held"))  # fmt: skip
    plot.js_on_event("tap", CustomJS(code="studio.at(cb_obj.x, true)"))
    return plot


def _roofline_points(document: Document) -> tuple[list[dict], list[tuple]]:
    """Points (operations a byte, operations a second) of statements, and entries of those that only
    move bytes or have no room, in order of their time."""
    places: dict[int, int] = {}
    for at, kind in enumerate(document.kinds):
        places.setdefault(kind.statement, at)
    points, moves = [], []
    statements = document.statements
    for at in sorted(range(len(statements)), key=lambda at: -statements[at].get("total_s", 0)):
        one = statements[at]
        time = one.get("total_s", 0) / max(one.get("calls", 0), 1)
        size, operations = one.get("bytes", 0), one.get("operations", 0)
        if min(time, size) <= 0:
            continue
        share = f"{one['limit_s'] / time:.0%}" if one.get("limit_s") else "-"
        if operations > 0 and len(points) < POINTS_MAX:
            points.append({"x": operations / size, "y": operations / time, "label": one["title"],
                           "place": places[at], "share": share})  # fmt: skip
        else:
            moves.append(("kind", places[at], f"{html.escape(one['title'])} {size / time:.3g} "
                          f"bytes a second, {share} of its roofline"))  # fmt: skip
    return points, moves


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
    dots.selection_glyph = dots.glyph.clone(fill_color="#f0b000", size=16)
    tips = [("", "@label"), ("of its roofline", "@share")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tips), TapTool(renderers=[dots]))
    source.selected.js_on_change("indices", CustomJS(code="studio.chosen(cb_obj.indices)"))
    return plot


def _list(title: str, items: list[tuple[str, int, str]], count: int = 0) -> str:
    """A list to click, some of `count`: of each entry "slice" or "kind", its place, its markup."""
    shown = "".join(f"<li data-{what}='{at}'>{text}</li>" for what, at, text in items)
    more = f"<p>{count - len(items)} more are left out.</p>" if count > len(items) else ""
    return (f"<details open><summary>{title}</summary><ol id='{title.lower().replace(' ', '-')}'>"
            f"{shown}</ol>{more}</details>") if items else ""  # fmt: skip


def _lists(document: Document, waited: list[float], path: list[int], lanes: Any) -> str:
    """Lists of what failed, waited and took longest, the longest chain, lanes and statements."""
    slices, kinds = document.slices, document.kinds
    took = [one.end - one.start for one in slices]
    times, waits = [*map(_time, took)], [*map(_time, waited)]

    def entries(chosen: Iterable[int], shown: Any) -> list[tuple[str, int, str]]:
        return [("slice", at, f"{html.escape(kinds[slices[at].kind].name)} "
                 f"<b>{slices[at].number}</b> {shown[at]}") for at in chosen]  # fmt: skip

    def most(of: list[float], count: int) -> list[int]:
        return sorted(range(len(of)), key=of.__getitem__, reverse=True)[:count]

    begin, end = analysis.span(document)
    latest = {slices[at].lane: at for at in sorted(range(len(slices)), key=waited.__getitem__)}
    idle = sorted(most([ready + none for _, ready, none in lanes], LISTED))
    causes = {at: ", ".join(f"{label} {_time(share * (end - begin))}" for (_, _, label), share
                            in zip(IDLE, lanes[at], strict=True)) for at in idle}  # fmt: skip
    of_lanes = [("slice", latest.get(at, ""), f"{html.escape(document.lanes[at])}"
                 f"<small>{cause}</small>") for at, cause in causes.items()]  # fmt: skip
    total = [0.0] * len(kinds)
    for one, time in zip(slices, took, strict=True):
        total[one.kind] += time
    of_kinds = [("kind", at, f"{html.escape(kinds[at].name)}<small>"
                 f"{html.escape(', '.join(kinds[at].lines))}</small>")
                for at in sorted(most(total, LISTED))]  # fmt: skip
    failed = {at: html.escape(one.failed) for at, one in enumerate(slices) if one.failed}
    return "".join([
        _list("Failed", entries([*failed][:LISTED], failed), len(failed)),
        _list("Longest waits", entries(most(waited, LONGEST), waits)),
        _list("Longest", entries(most(took, LONGEST), times)),
        _list("Critical path", entries(path[:LISTED], times), len(path)),
        _list("Lanes", of_lanes, len(document.lanes)),
        _list("Statements", of_kinds, len(kinds)),
    ])  # fmt: skip


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
    order = sorted(document.sources.items(), key=lambda one: (_is_cpp(one[0]), one[0]))
    panes = [("cpp" if _is_cpp(file) else "source", file, _source(file, text, by_line, document))
             for file, text in order]  # fmt: skip
    panes += [("cpp", name, _cpp(text.splitlines(), by_line, document, name))
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


def _is_cpp(file: str) -> bool:
    return Path(file).suffix in CPP_SUFFIXES


def _source(file: str, text: str, by_line: dict[str, set[int]], document: Document) -> str:
    lines = text.splitlines()
    inside = _bodies(lines, document, file) if _is_cpp(file) else {}
    return "".join(
        _line(at, line, by_line.get(f"{file}:{at}", set()) | inside.get(at, set()), f"{file}:{at}")
        for at, line in enumerate(lines, 1))  # fmt: skip


def _cpp(lines: list[str], by_line: dict[str, set[int]], document: Document, name: str) -> str:
    inside = _bodies(lines, document, name)
    named = [_at(re.findall(r'"([^"]*:\d+)"', line), by_line) for line in lines]  # as errors do
    return "".join(_line(at, line, inside.get(at, set()) | named[at - 1])
                   for at, line in enumerate(lines, 1))  # fmt: skip


def _bodies(lines: list[str], document: Document, name: str = "") -> dict[int, set[int]]:
    """The kinds whose function each line of C++ belongs to."""
    symbols: dict[str, set[int]] = defaultdict(set)
    for at, kind in enumerate(document.kinds):
        about = document.about(at)
        own = about.get("symbol") or kind.name.rpartition(" ")[2]
        file, symbol = document.functions.get(kind.name, (about.get("cpp"), own))
        if file in (None, "", name):
            symbols[symbol].add(at)
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
    return "".join(_line(None, line, _at(map(":".join, _PLACE.findall(line)), by_line))
                   for line in text.splitlines())  # fmt: skip


def _at(places: Iterable[str], by_line: dict[str, set[int]]) -> set[int]:
    """The kinds of these lines, whose paths may be longer than those that kinds know."""
    kinds: set[int] = set()
    for place in places:
        name = place.rpartition("/")[2]
        kinds.update(*(own for line, own in by_line.items()
                       if line.endswith(name) and place.endswith(line)))  # fmt: skip
    return kinds


def _data(document: Document, waited: list[float], path: list[int]) -> str:
    """The slices for the script, column by column; times are whole nanoseconds since the begin."""
    begin, _ = analysis.span(document)
    lines = rows(document)
    places = {row: at for at, row in enumerate(lines)}
    slices, memory = document.slices, analysis.memory(document)
    columns = {
        "begin": begin, "rows": [lane for lane, _ in lines], "lanes": document.lanes,
        "start": [round((one.start - begin) * 1e3) for one in slices],
        "took": [round((one.end - one.start) * 1e3) for one in slices],
        "waited": [round(time * 1e3) for time in waited],
        "row": [places[one.lane, one.depth] for one in slices],
        "kind": [one.kind for one in slices], "number": [one.number for one in slices],
        "iteration": [one.iteration for one in slices], "critical": path,
        "failed": {at: one.failed for at, one in enumerate(slices) if one.failed},
        "edges": [part for edge in document.edges for part in edge],
        "held": [(one.owner, round((one.start - begin) * 1e3), one.bytes,
                  None if one.until == math.inf else round((one.until - begin) * 1e3))
                 for one in analysis.held(document)],
        "memory": memory and [((memory["time"] - begin) * 1e3).round().tolist(),
                              memory["bytes"].tolist()],
        "kinds": [vars(kind) for kind in document.kinds], "statements": document.statements,
        "dropped": document.dropped,
    }  # fmt: skip
    return json.dumps(columns, separators=(",", ":")).replace("<", "\\u003c")
