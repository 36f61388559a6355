// What every part of a page is made of: elements, numbers, colours, tables. Whatever comes from a
// run folder becomes text here and nothing else: no markup is ever parsed.
"use strict";
const Colonnade = (() => {
  const make = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
      else made.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) {
      if (child === null || child === undefined) continue;
      made.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return made;
  };
  const refill = (parent, ...children) => {
    parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
    return parent;
  };

  const figure = (value, digits = 3) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(digits)));
  };
  const count = (value) => value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
  const seconds = (value, digits = 3) => {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0 s";
    const size = Math.abs(value);
    if (size < 1e-6) return figure(value * 1e9, digits) + " ns";
    if (size < 1e-3) return figure(value * 1e6, digits) + " µs";
    if (size < 1) return figure(value * 1e3, digits) + " ms";
    if (size < 600) return figure(value, digits) + " s";
    if (size < 7200) return figure(value / 60, digits) + " min";
    return figure(value / 3600, digits) + " h";
  };
  const bytes = (value) => {
    if (value === null || value === undefined) return "–";
    for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
      if (value >= size) return figure(value / size) + " " + unit;
    return figure(value) + " B";
  };
  const percent = (value) => value === null || value === undefined ? "–" : figure(100 * value) + " %";

  // Okabe and Ito's colours, which people with any common colour vision can tell apart; the yellow
  // is darkened, for it must show on white.
  const INKS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#A6761D"];
  const KINDS = {
    forward: "#56B4E9", backward: "#0072B2", local: "#009E73", aggregate: "#D55E00", top: "#CC79A7",
    encode: "#B8A100", codec: "#B8A100", decode: "#E69F00", evaluate: "#8C6BB1", checkpoint: "#A6761D",
    align: "#4F7F5B", score: "#7F4F6B", wait: null, send: "#E69F00", flight: "#F3CE8B", receive: "#CC79A7",
  };
  const dash = ["solid", "dashed", "dotted", [8, 3, 2, 3], [2, 2], [12, 4], [6, 2, 2, 2, 2, 2], [4, 6]];
  const ink = (place) => INKS[place % INKS.length];
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return {
      text: read("--text"), soft: read("--soft"), line: read("--line"), ground: read("--ground"),
      card: read("--card"), wait: read("--wait"), accent: read("--accent"), baseline: read("--baseline"),
    };
  };
  const kindInk = (kind, place, look) => kind === "wait" ? look.wait : KINDS[kind] || ink(place + 3);

  // A table that a person can read and a spreadsheet can take.
  const SHOWN = 300;
  const table = (columns, rows, caption) => {
    const shown = rows.slice(0, SHOWN);
    const head = make("tr", {}, columns.map((column) =>
      make("th", {scope: "col", class: column.number ? "number" : null}, column.title)));
    const body = shown.map((row) => make("tr", {}, columns.map((column, place) => {
      const value = column.value(row);
      const text = column.show ? column.show(value) : value === null || value === undefined ? "–" : value;
      return place === 0 ? make("th", {scope: "row"}, text)
        : make("td", {class: column.number ? "number" : null}, text);
    })));
    const made = make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
      make("table", {}, make("caption", {class: "hidden"}, caption), make("thead", {}, head),
        make("tbody", {}, body)));
    const more = rows.length > SHOWN
      ? make("p", {class: "soft"}, `The first ${SHOWN} of ${count(rows.length)} lines; the CSV file has all.`) : null;
    return [made, more];
  };
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    // A spreadsheet would take such a text for a formula.
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const csv = (columns, rows) => [columns.map((column) => cell(column.title)).join(","),
    ...rows.map((row) => columns.map((column) => cell(column.value(row))).join(","))].join("\n") + "\n";
  const download = (name, text) => {
    const link = make("a", {href: URL.createObjectURL(new Blob([text], {type: "text/csv"})), download: name});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  // The data behind a chart: made when it is opened, for it may be long.
  const behind = (name, get) => {
    const inside = make("div", {});
    const fill = () => {
      const {columns, rows} = get();
      refill(inside, table(columns, rows, `Data of ${name}`).concat(make("p", {},
        make("button", {type: "button", on: {click: () => {
          const now = get();
          download(name.replaceAll(/[^a-z0-9]+/gi, "-") + ".csv", csv(now.columns, now.rows));
        }}}, "Download CSV"))));
    };
    const made = make("details", {class: "data", on: {toggle: () => { if (made.open) fill(); }}},
      make("summary", {}, "Data table"), inside);
    return {node: made, update: () => { if (made.open) fill(); }};
  };

  // One of a few choices, reached by keyboard as radio buttons are.
  let unique = 0;
  const choice = (title, options, chosen, act) => {
    const name = `choice-${unique += 1}`;
    return make("fieldset", {class: "choice"}, make("legend", {class: "hidden"}, title),
      options.map(([value, text]) => make("label", {},
        make("input", {type: "radio", name, value, checked: value === chosen, on: {change: () => act(value)}}),
        make("span", {}, text))));
  };
  const select = (title, options, chosen, act) => make("label", {class: "select"},
    make("span", {}, title), make("select", {on: {change: (event) => act(event.target.value)}},
      options.map(([value, text]) => make("option", {value, selected: value === chosen}, text))));

  // What a tooltip says, as elements: a title and lines of name and value.
  const tip = (title, lines) => make("div", {class: "tip"}, make("strong", {}, title),
    make("dl", {}, lines.filter((line) => line).map(([name, value, colour]) => {
      const dot = make("i", {"aria-hidden": "true"});
      if (colour) dot.style.background = colour; else dot.hidden = true;
      return make("div", {}, make("dt", {}, dot, name), make("dd", {}, value));
    })));

  const NAMES = {wait: "waiting", send: "sending", flight: "in flight", receive: "waiting in the inbox",
    local: "local update", top: "top model", codec: "coding", encode: "encoding", decode: "decoding",
    evaluate: "evaluating", aggregate: "aggregating", checkpoint: "saving a checkpoint"};
  const kindName = (kind) => NAMES[kind] || kind;

  // No line ends between a number and its unit.
  const unbroken = (text) => text.replace(/(\d) (?=%|(?:[kMGT]?B|us|ms|s|min|h)\b)/g, "$1\u00a0");

  // A chart in its place: follows its width, and is drawn anew where light or paper change.
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  const charts = new Set();
  const chart = (label, height) => {
    const box = make("div", {class: "chart", role: "img", "aria-label": label});
    box.style.height = `${height}px`;
    let drawn = null, option = null;
    const made = {
      box,
      get instance() { return drawn; },
      draw(make_) {
        option = make_;
        if (!box.isConnected) return;
        if (drawn === null) {
          drawn = echarts.init(box, null, {renderer: "canvas"});
          new ResizeObserver(() => made.resize()).observe(box);
        }
        drawn.setOption({animation: false, textStyle: {fontFamily: FONT, fontSize: 13}, ...make_(theme())}, {notMerge: true});
      },
      again() { if (option) made.draw(option); },
      // An observer also tells of the size that a chart was just drawn in.
      resize() {
        if (drawn && box.clientWidth && (drawn.getWidth() !== box.clientWidth || drawn.getHeight() !== box.clientHeight)) drawn.resize();
      },
      size(px) { if (box.style.height !== `${px}px`) { box.style.height = `${px}px`; made.resize(); } },
      say(text) { box.setAttribute("aria-label", text); },
    };
    charts.add(made);
    return made;
  };
  const redraw = () => { for (const each of charts) { each.resize(); each.again(); } };
  for (const query of ["(prefers-color-scheme: dark)", "print", "(prefers-contrast: more)"])
    matchMedia(query).addEventListener("change", redraw);
  addEventListener("beforeprint", redraw);
  addEventListener("afterprint", redraw);

  const axis = (look, more) => ({
    axisLine: {lineStyle: {color: look.line}}, axisTick: {show: false},
    axisLabel: {color: look.soft, hideOverlap: true}, splitLine: {lineStyle: {color: look.line, opacity: 0.6}},
    nameTextStyle: {color: look.soft}, ...more,
  });
  const tooltip = (look, more) => ({
    backgroundColor: look.card, borderColor: look.line, textStyle: {color: look.text, fontSize: 13},
    confine: true, transitionDuration: 0, extraCssText: "box-shadow:0 4px 16px #0003;max-width:22rem;white-space:normal",
    ...more,
  });
  const state = {patterns: matchMedia("(prefers-contrast: more)").matches};
  const aria = (description) => ({enabled: true, label: {description}, decal: {show: state.patterns}});

  return {make, refill, figure, count, seconds, bytes, percent, ink, dash, theme, kindInk, kindName, unbroken, table, behind, choice,
    select, tip, chart, redraw, axis, tooltip, aria, state, csv};
})();
