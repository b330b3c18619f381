// SPDX-License-Identifier: Apache-2.0
// Links the parts of the page: a click on a slice, a line, a point or an entry selects its statement
// in all of them. The timeline draws at most BOXES_MAX boxes: neighbours of a row that are narrower
// than a cell of time are one box with their count, and so are neighbouring rows beyond ROWS_MAX. The
// curve of memory has at most STEPS_MAX steps: neighbours are one, with the most that they hold.
const studio = (() => {
  "use strict";
  const BOXES_MAX = 2600, ARROWS_MAX = 300, STEPS_MAX = 400, ROWS_MAX = 100, LABELS_MAX = 30, SHOWN = 20;
  const COLORS = ["#4878a8", "#d98b3a", "#5a9e6f", "#b0413e", "#7a4ea0", "#8c6d46", "#c06c9e", "#6b7a8f"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const {start, took, begin: zero} = data, count = start.length;
  const stop = at => start[at] + took[at], micros = ns => zero + ns / 1e3;
  const latest = places => places.reduce((last, at) => Math.max(last, stop(at)), 0);
  const rows = data.rows.map(() => []);  // of each row its slices, in order of time
  for (let at = 0; at < count; ++at) rows[data.row[at]].push(at);
  const before = new Map(), after = new Map();
  for (let at = 0; at < data.edges.length; at += 2) {
    const [from, to] = [data.edges[at], data.edges[at + 1]];
    (before.get(to) || before.set(to, []).get(to)).push(from);
    (after.get(from) || after.set(from, []).get(from)).push(to);
  }
  const taken = new Map();  // bytes of memory that each slice takes
  for (const [owner, , bytes] of data.held) taken.set(owner, (taken.get(owner) || 0) + bytes);
  const critical = new Set(data.critical);
  let model = null, timer = 0, drawn = [], groups = [], height = 0, kinds = new Set(), slices = new Set();

  const time = ns => ns >= 1e9 ? (ns / 1e9).toPrecision(4) + " s" : ns >= 1e6 ?
    (ns / 1e6).toPrecision(4) + " ms" : ns >= 1e3 ? (ns / 1e3).toPrecision(4) + " us" : ns + " ns";

  // Makes `height` rows one group: its slices in order of begin, and the last end up to each.
  function group() {
    groups = [];
    for (let top = 0; top < rows.length; top += height) {
      const own = rows.slice(top, top + height).flat();
      if (height > 1) own.sort((a, b) => start[a] - start[b]);
      let last = 0;
      groups.push({top, own, until: own.map(one => last = Math.max(last, stop(one)))});
    }
  }

  // How many of the times, which are in order, lie before this one.
  function countBefore(times, time) {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  }

  // The memory from the change before one time to the change after another.
  function curve(from, to) {
    const [times, bytes] = data.memory, out = {time: [], bytes: []};
    const first = Math.max(countBefore(times, from) - 1, 0), last = Math.min(countBefore(times, to), times.length - 1);
    const step = Math.ceil((last - first) / STEPS_MAX);
    for (let at = first; at < last; at += step) {
      out.time.push(micros(times[at]));
      out.bytes.push(Math.max(...bytes.slice(at, Math.min(at + step, last))));
    }
    out.time.push(micros(times[last])); out.bytes.push(bytes[last]);
    return out;
  }

  // Adds the boxes of one group between two times: at most two for each cell, and two.
  function boxes({own, until}, from, to, cells, add) {
    const cell = (to - from) / cells;
    for (let at = countBefore(until, from); at < own.length && start[own[at]] <= to;) {
      const joined = [own[at]], limit = Math.max(start[own[at]], from) + cell;
      const isAlone = height === 1 && took[own[at]] >= cell, ends = height > 1 ? one => start[one] : stop;
      while (++at < own.length && !isAlone && ends(own[at]) <= limit) joined.push(own[at]);
      add(joined.filter(one => stop(one) >= from));
    }
  }

  function draw() {
    if (!model.range) return;
    const from = (model.range.start - zero) * 1e3, to = (model.range.end - zero) * 1e3;
    const [top, bottom] = [model.rows.start, model.rows.end].sort((a, b) => a - b);
    const needed = Math.max(1, Math.ceil((bottom - top) / ROWS_MAX));
    if (needed !== height) { height = needed; group(); }
    const shown = groups.filter(one => one.top + height > top && one.top < bottom);
    const cells = Math.max(1, Math.floor((BOXES_MAX / Math.max(shown.length, 1) - 2) / 2));
    const out = {left: [], right: [], top: [], bottom: [], color: [], alpha: [], critical: [], label: []};
    drawn = [];
    for (const one of shown) boxes(one, from, to, cells, joined => {
      if (!joined.length) return;
      const own = new Set(joined.map(at => data.kind[at]));
      const [known] = [...own].filter(at => kinds.has(at)), kind = known ?? data.kind[joined[0]];
      const name = data.kinds[kind].name, isChosen = joined.some(at => slices.has(at));
      const lanes = new Set(joined.map(at => data.rows[data.row[at]])).size;
      drawn.push(joined);
      out.left.push(micros(start[joined[0]])); out.right.push(micros(latest(joined)));
      out.top.push(one.top + 0.08 * height); out.bottom.push(one.top + 0.92 * height);
      out.color.push(isChosen ? "#000000" : COLORS[kind % COLORS.length]);
      out.alpha.push(kinds.size === 0 || known !== undefined ? 0.95 : 0.25);
      out.critical.push(joined.some(at => critical.has(at)) ? 1 : 0);
      out.label.push(joined.length === 1 ? `${name} ${data.number[joined[0]]}, ${time(took[joined[0]])}` :
        `${joined.length} slices${lanes > 1 ? ` of ${lanes} lanes` : ""}: ${own.size > 1 ? "several statements" : name}`);
    });
    model.drawn.data = out;
    model.drawn.selected.indices = [];
    model.arrows.data = arrows();
    if (model.held) model.held.data = curve(from, to);
    label(shown);
    document.getElementById("status").textContent = `${count} slices in ${data.lanes.length} lanes, ` +
      `${out.left.length} boxes drawn` + (height > 1 ? `; a row stands for ${height}: zoom to see each` : "") +
      (data.dropped ? `; ${data.dropped} were dropped by the trace` : "");
  }

  // Names some rows: a lane at its outermost row, a group by its first lane and how many follow.
  function label(shown) {
    const named = shown.filter(({top}) => height > 1 || data.rows[top] !== data.rows[top - 1]);
    const some = named.filter((_, at) => at % Math.ceil(named.length / LABELS_MAX) === 0);
    model.axis.ticker.ticks = some.map(one => one.top + height / 2);
    model.axis.major_label_overrides = new Map(some.map(({top}) => {
      const first = data.rows[top], last = data.rows[Math.min(top + height, rows.length) - 1];
      return [top + height / 2, data.lanes[first] + (last > first ? ` (+ ${last - first})` : "")];
    }));
  }

  // The dependencies of what is selected.
  function arrows() {
    const pairs = [...slices].flatMap(slice => [...(before.get(slice) || []).map(one => [one, slice]),
                                                ...(after.get(slice) || []).map(one => [slice, one])]).slice(0, ARROWS_MAX);
    return {x0: pairs.map(([from]) => micros(stop(from))), y0: pairs.map(([from]) => data.row[from] + 0.5),
            x1: pairs.map(([, to]) => micros(start[to])), y1: pairs.map(([, to]) => data.row[to] + 0.5)};
  }

  // An element with a text; what comes from the trace is never read as markup.
  function element(name, text, options = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    Object.assign(made.dataset, options);
    return made;
  }

  function describe(chosen) {
    const table = document.createElement("table");
    const row = (name, ...cells) => {
      const line = table.insertRow();
      line.append(element("td", name), element("td", ""));
      line.lastChild.append(...cells);
    };
    const links = (name, places = []) => places.length && row(name,
      ...places.slice(0, SHOWN).map(one => element("span", String(data.number[one]), {slice: one})),
      places.length > SHOWN ? `and ${places.length - SHOWN} more` : "");
    const texts = about => Object.entries(about).forEach(([name, value]) => value && row(name, String(value)));
    const places = [...slices], [slice] = places, memory = places.reduce((sum, at) => sum + (taken.get(at) || 0), 0);
    if (places.length > 1) {
      texts({tasks: places.length, take: time(places.reduce((sum, at) => sum + took[at], 0)) + " together"});
      links("the longest", places.sort((a, b) => took[b] - took[a]));
    } else if (places.length) {
      texts({task: String(data.number[slice]), lane: data.lanes[data.rows[data.row[slice]]],
             begins: time(start[slice]), takes: time(took[slice]), waited: time(data.waited[slice]),
             waited_ns: String(data.waited[slice]), iteration: data.iteration[slice] >= 0 && String(data.iteration[slice]),
             critical: critical.has(slice) && "on the longest chain", failed: data.failed[slice]});
      links("after", before.get(slice));
      links("before", after.get(slice));
    }
    texts({"bytes taken": memory && memory.toLocaleString("en")});
    for (const {name, lines, statement} of chosen.slice(0, SHOWN).map(kind => data.kinds[kind])) {
      row("statement", name);
      for (const line of lines) row("line", line);
      const {calls, share, bytes, operations, limit_s: limit, total_s: total} = data.statements[statement] || {};
      texts({calls, share: share && (100 * share).toFixed(1) + " %", bytes, operations,
             "of roofline": limit && total && (100 * limit * calls / total).toFixed(0) + " %"});
    }
    texts({statements: chosen.length > SHOWN && `and ${chosen.length - SHOWN} more`});
    document.getElementById("about").replaceChildren(table);
  }

  // Marks in the plots over time when the selected slices, or all of the selected kinds, ran.
  function mark() {
    const chosen = slices.size ? [...slices] : [...data.kind.keys()].filter(at => kinds.has(data.kind[at]));
    if (!model.mark || !chosen.length) return;
    model.mark.setv({visible: true, left: micros(chosen.reduce((a, at) => Math.min(a, start[at]), Infinity)),
                     right: micros(latest(chosen))});
  }

  function show(chosen, places) {
    const own = new Set(chosen.map(kind => data.kinds[kind].statement).filter(one => one >= 0));
    kinds = new Set([...chosen, ...[...data.kinds.keys()].filter(at => own.has(data.kinds[at].statement))]);
    slices = new Set(places);
    for (const one of document.querySelectorAll("[data-kind], [data-kinds], li[data-slice]")) {
      const {kind, kinds: some, slice} = one.dataset;
      one.classList.toggle("selected", slice !== undefined ? slice !== "" && slices.has(+slice) :
                           (some ?? kind).split(" ").some(at => kinds.has(+at)));
    }
    for (const about of ["source", "cpp", "stage"]) {
      const panes = [...document.querySelectorAll(`.pane.${about}`)];
      const found = panes.filter(pane => pane.querySelector(".line.selected"));
      const some = about === "stage" ? 1 : 2;  // who submits a task, and what runs, may both be C++
      if (found.filter(pane => pane.open).length < some) for (const pane of found.slice(0, some)) pane.open = true;
      for (const pane of found.filter(one => one.open)) {
        const text = pane.querySelector("pre"), line = pane.querySelector(".line.selected");
        text.scrollTop = line.offsetTop - text.offsetTop - text.clientHeight / 3;
      }
    }
    if (model.points)
      model.points.selected.indices = [...model.points.data.place].flatMap((at, i) => kinds.has(at) ? [i] : []);
    describe(chosen);
    mark();
    draw();
  }

  const showSlices = places => show([...new Set(places.map(at => data.kind[at]))], places);
  // Moves what is seen so that a slice is in it, a twentieth of its width.
  function goTo(at) {
    const half = Math.max(10 * took[at], 5), middle = (start[at] + stop(at)) / 2;
    model.range.setv({start: micros(middle - half), end: micros(middle + half)});
    showSlices([at]);
  }

  function clicked(event) {
    const one = event.target.closest("[data-slice], [data-kind], [data-kinds]");
    if (one && one.dataset.slice) goTo(Number(one.dataset.slice));
    else if (one && one.dataset.slice === undefined) show((one.dataset.kinds ?? one.dataset.kind).split(" ").map(Number), []);
  }

  function begin() {
    const found = typeof Bokeh === "undefined" ? null : Bokeh.documents[0];
    if (!found && document.querySelector("#plots [data-root-id]")) return setTimeout(begin, 30);
    const named = name => found && found.get_model_by_name(name);
    model = {range: named("time"), rows: named("rows"), axis: named("lanes"), drawn: named("drawn"),
             arrows: named("arrows"), points: named("points"), held: named("held"), mark: named("mark")};
    document.addEventListener("click", clicked);
    draw();
  }
  document.addEventListener("DOMContentLoaded", begin);

  return {
    tapped: places => { if (places.length) showSlices(drawn[places[places.length - 1]]); },
    chosen: places => {
      const chosen = places.map(at => model.points.data.place[at]);
      if (chosen.some(kind => !kinds.has(kind))) show(chosen, []);
    },
    // Selects what runs at a time, or holds memory then.
    at: (x, isMemory) => {
      const now = (x - zero) * 1e3, holds = ([at, from, , until]) => at >= 0 && from <= now && now <= (until ?? now);
      const all = isMemory ? data.held : start.map((from, at) => [at, from, 0, stop(at)]);
      const found = [...new Set(all.filter(holds).map(([at]) => at))];
      if (found.length) showSlices(found);
    },
    zoomed: () => { clearTimeout(timer); timer = setTimeout(draw, 30); },
    zoom: (from, to) => model.range.setv({start: from, end: to}),
    boxes: () => drawn.length,
    seen: () => drawn.flat().length,
    shapes: () => model ? drawn.length + (model.arrows ? model.arrows.data.x0.length : 0) +
      (model.points ? model.points.data.x.length : 0) + (model.held ? model.held.data.time.length : 0) + document.querySelectorAll("li, span[data-slice]").length : -1,
  };
})();
