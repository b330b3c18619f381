// SPDX-License-Identifier: Apache-2.0
// Links the parts of the page: a click on a slice, a line, a point or an entry selects its statement
// in all of them. The timeline draws at most BOXES_MAX boxes: neighbours of a row that are narrower
// than a cell of time are one box with their count.
const studio = (() => {
  "use strict";
  const BOXES_MAX = 3000, ARROWS_MAX = 300;
  const COLORS = ["#4878a8", "#d98b3a", "#5a9e6f", "#b0413e", "#7a4ea0", "#8c6d46", "#c06c9e",
                  "#6b7a8f", "#a8a23a", "#3f9fa8"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.start.length;
  const rows = [];  // of each row its slices, in order of time
  for (let at = 0; at < count; ++at) (rows[data.row[at]] ||= []).push(at);
  const before = new Map(), after = new Map();
  for (let at = 0; at < data.edges.length; at += 2) {
    const [from, to] = [data.edges[at], data.edges[at + 1]];
    (before.get(to) || before.set(to, []).get(to)).push(from);
    (after.get(from) || after.set(from, []).get(from)).push(to);
  }
  const critical = new Set(data.critical);
  let model = null, timer = 0, kind = -1, slice = -1;

  const begin = at => data.begin + data.start[at] / 1e3;
  const end = at => begin(at) + data.took[at] / 1e3;
  const time = ns => ns >= 1e9 ? (ns / 1e9).toPrecision(4) + " s" : ns >= 1e6 ?
    (ns / 1e6).toPrecision(4) + " ms" : ns >= 1e3 ? (ns / 1e3).toPrecision(4) + " us" : ns + " ns";

  // The first slice of a row that ends after a time.
  function first(row, from) {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end(row[middle]) < from) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Adds the boxes of one row between two times.
  function boxes(row, at, from, to, cells, add) {
    const cell = (to - from) / cells;
    let place = first(row, from);
    while (place < row.length && begin(row[place]) <= to) {
      const one = row[place];
      if (end(one) - begin(one) >= cell) {
        add(at, begin(one), end(one), [one]);
        ++place;
        continue;
      }
      const limit = begin(one) + cell, joined = [];
      let last = end(one);
      while (place < row.length && end(row[place]) <= limit) {
        last = end(row[place]);
        joined.push(row[place++]);
      }
      if (joined.length === 0) { joined.push(one); ++place; }
      add(at, begin(one), last, joined);
    }
  }

  function draw() {
    const {start: from, end: to} = model.range;
    const out = {left: [], right: [], top: [], bottom: [], color: [], alpha: [], label: [], place: []};
    const cells = Math.max(1, Math.floor(BOXES_MAX / Math.max(rows.length, 1) / 2) - 2);
    const add = (row, left, right, joined) => {
      if (out.left.length >= BOXES_MAX) return;
      const kinds = new Set(joined.map(one => data.kind[one]));
      const chosen = joined.includes(slice) ? slice : joined.find(one => data.kind[one] === kind);
      const shown = chosen ?? joined[0];
      const isShown = kind < 0 || kinds.has(kind);
      const name = data.kinds[data.kind[shown]].name;
      out.left.push(left); out.right.push(right); out.top.push(row + 0.08); out.bottom.push(row + 0.92);
      out.color.push(joined.includes(slice) ? "#000000" : COLORS[data.kind[shown] % COLORS.length]);
      out.alpha.push(isShown ? 0.95 : 0.25);
      out.label.push(joined.length > 1 ? `${joined.length} slices: ${kinds.size > 1 ? "several statements" : name}`
                     : `${name} ${data.number[shown]}, ${time(data.took[shown])}`);
      out.place.push(shown);
    };
    rows.forEach((row, at) => boxes(row, at, from, to, cells, add));
    model.drawn.data = out;
    model.arrows.data = arrows();
    document.getElementById("status").textContent = `${count} slices, ${out.left.length} drawn` +
      (data.dropped ? `, ${data.dropped} were dropped by the trace` : "");
  }

  function arrows() {
    const found = {x0: [], y0: [], x1: [], y1: []};
    const add = (from, to) => {
      if (found.x0.length >= ARROWS_MAX) return;
      found.x0.push(end(from)); found.y0.push(data.row[from] + 0.5);
      found.x1.push(begin(to)); found.y1.push(data.row[to] + 0.5);
    };
    for (const one of before.get(slice) || []) add(one, slice);
    for (const one of after.get(slice) || []) add(slice, one);
    return found;
  }

  // An element with a text; what comes from the trace is never read as markup.
  function element(name, text, options = {}) {
    const made = document.createElement(name);
    made.textContent = text;
    Object.assign(made.dataset, options);
    return made;
  }

  function describe() {
    const about = document.getElementById("about"), table = document.createElement("table");
    const row = (name, ...cells) => {
      const line = document.createElement("tr"), last = document.createElement("td");
      line.append(element("td", name));
      cells.forEach(cell => last.append(cell));
      line.append(last);
      table.append(line);
    };
    const links = (places, most = 20) => places.slice(0, most).map(one => {
      const made = element("span", String(data.number[one]), {slice: one});
      made.className = "link";
      return made;
    });
    const own = data.kinds[kind];
    if (slice >= 0) {
      row("task", String(data.number[slice]));
      row("begins", time(data.start[slice]));
      row("takes", time(data.took[slice]));
      row("waited", time(data.waited[slice]));
      row("waited_ns", String(data.waited[slice]));
      if (data.iteration[slice] >= 0) row("iteration", String(data.iteration[slice]));
      if (critical.has(slice)) row("critical", "on the longest chain");
      if (before.has(slice)) row("after", ...links(before.get(slice)));
      if (after.has(slice)) row("before", ...links(after.get(slice)));
    }
    row("statement", own.name);
    for (const line of own.lines) row("line", line);
    const {calls, share, bytes, operations, limit_s: limit, total_s: total} = own.about;
    if (calls) row("calls", String(calls));
    if (share) row("share", (100 * share).toFixed(1) + " %");
    if (bytes) row("bytes", String(bytes));
    if (operations) row("operations", String(operations));
    if (limit && total) row("of roofline", (100 * limit * calls / total).toFixed(0) + " %");
    about.replaceChildren(table);
  }

  function show(newKind, newSlice) {
    kind = newKind; slice = newSlice;
    for (const one of document.querySelectorAll(".selected")) one.classList.remove("selected");
    for (const one of document.querySelectorAll(`[data-kinds~="${kind}"], [data-kind="${kind}"]`))
      one.classList.add("selected");
    for (const one of document.querySelectorAll(`li[data-slice="${slice}"]`)) one.classList.add("selected");
    for (const pane of document.querySelectorAll(".pane")) {
      const line = pane.querySelector(".line.selected");
      if (line && pane.open) {
        const text = pane.querySelector("pre");
        text.scrollTop = line.offsetTop - text.offsetTop - text.clientHeight / 3;
      }
    }
    describe();
    draw();
  }

  const showSlice = at => show(data.kind[at], at);

  // Moves the time that is seen so that a slice is in it, a twentieth of its width.
  function goTo(at) {
    const width = Math.max(20 * data.took[at] / 1e3, 1e-2), middle = (begin(at) + end(at)) / 2;
    model.range.setv({start: middle - width / 2, end: middle + width / 2});
    showSlice(at);
  }

  function clicked(event) {
    const one = event.target.closest("[data-slice], [data-kind], [data-kinds]");
    if (!one) return;
    if (one.dataset.slice !== undefined) goTo(Number(one.dataset.slice));
    else show(Number(one.dataset.kind ?? one.dataset.kinds.split(" ")[0]), -1);
  }

  function start() {
    const found = typeof Bokeh === "undefined" ? null : Bokeh.documents[0];
    const range = found && found.get_model_by_name("time");
    if (!range) return setTimeout(start, 30);
    model = {range, drawn: found.get_model_by_name("drawn"), arrows: found.get_model_by_name("arrows"),
             points: found.get_model_by_name("points")};
    document.addEventListener("click", clicked);
    draw();
  }
  document.addEventListener("DOMContentLoaded", start);

  return {
    tapped: places => { if (places.length) showSlice(model.drawn.data.place[places[0]]); },
    chosen: places => { if (places.length && model.points.data.place[places[0]] >= 0)
                          show(model.points.data.place[places[0]], -1); },
    zoomed: () => { clearTimeout(timer); timer = setTimeout(draw, 30); },
    zoom: (from, to) => model.range.setv({start: from, end: to}),
    goTo,
    shapes: () => model ? model.drawn.data.left.length + model.arrows.data.x0.length : -1,
  };
})();
