// The list of all runs: filtered, sorted, and kept up to date.

import { ask, badge, el, follow, put, showBytes, showCount, showStatus, showTime, showValue,
  showWhen } from "./common.js";

const COLUMNS = [
  ["name", "Run", (row) => row.name],
  ["method", "Method", (row) => row.method || "–"],
  ["seed", "Seed", (row) => (row.seed == null ? "–" : String(row.seed))],
  ["status", "Status", (row) => showStatus(row.status)],
  ["value", "Metric", (row) => (row.value == null ? "–" : showValue(row.value))],
  ["time_s", "Time", (row) => showTime(row.time_s)],
  ["rounds", "Rounds", (row) => rounds(row)],
  ["bytes", "Bytes", (row) => showBytes(row.bytes)],
  ["changed_s", "Changed", (row) => showWhen(row.changed_s)],
];
const FIGURES = new Set(["seed", "value", "time_s", "rounds", "bytes"]);
const COMPARED_MAX = 12;

function rounds(row) {
  const done = showCount(row.rounds);
  return row.status === "running" && row.rounds_all
    ? `${done} of ${showCount(row.rounds_all)}` : done;
}

export function showList(page) {
  document.title = "Runs – Colonnade";
  const wanted = new URLSearchParams(location.search);
  const state = {
    rows: new Map(), chosen: new Set(), nodes: new Map(), notes: [],
    text: wanted.get("q") || "", method: wanted.get("method") || "",
    status: wanted.get("status") || "", sort: wanted.get("sort") || "changed_s",
    down: wanted.get("order") !== "up",
  };
  if (!COLUMNS.some(([key]) => key === state.sort)) state.sort = "changed_s";
  const parts = build(page, state);
  const draw = () => render(state, parts);
  parts.draw = draw;
  follow("/api/changes", (told) => {
    for (const row of told.rows) state.rows.set(row.id, row);
    for (const id of told.gone) { state.rows.delete(id); state.chosen.delete(id); }
    state.notes = told.notes;
    state.known = true;
    draw();
  }, (lost) => { parts.lost.hidden = !lost; });
  ask("/api/runs").then((told) => put(parts.root, `in ${told.root}`)).catch(() => {});
}

function build(page, state) {
  const parts = {};
  const change = (key) => (event) => { state[key] = event.target.value; parts.draw(); remember(state); };
  parts.root = el("span", { class: "root" });
  parts.title = el("h1", {}, "Runs ", parts.root);
  parts.lost = el("p", { class: "problem", role: "status", hidden: true },
    "The dashboard does not answer; this page tries again.");
  parts.text = el("input", { type: "search", id: "q", placeholder: "name, job, method, seed",
    oninput: change("text"), autocomplete: "off" });
  parts.text.value = state.text;
  parts.method = el("select", { id: "method", onchange: change("method") });
  parts.status = el("select", { id: "status", onchange: change("status") });
  parts.sort = el("select", { id: "sort", onchange: change("sort") },
    ...COLUMNS.map(([key, label]) => el("option", { value: key }, label)));
  parts.order = el("button", { type: "button", class: "quiet", onclick: () => {
    state.down = !state.down; parts.draw(); remember(state);
  } });
  parts.count = el("p", { class: "count", role: "status" }, "Looking for runs …");
  parts.compare = el("button", { type: "button", onclick: () => {
    location.href = `/compare?${[...state.chosen].map((id) => `run=${id}`).join("&")}`;
  } }, "Compare");
  parts.heads = new Map();
  const head = el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen" }, "Chosen")),
    ...COLUMNS.map(([key, label]) => headCell(key, label, state, parts)));
  parts.body = el("tbody");
  parts.table = el("table", { class: "runs" },
    el("caption", { class: "unseen" }, "All runs of this folder"), el("thead", {}, head), parts.body);
  parts.empty = el("div", { class: "empty", hidden: true });
  parts.notes = el("ul", { class: "notes" });
  page.replaceChildren(el("main", { class: "listing" }, parts.title, parts.lost,
    el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      field("q", "Filter", parts.text), field("method", "Method", parts.method),
      field("status", "Status", parts.status),
      el("span", { class: "field sorting" }, el("label", { for: "sort" }, "Sort by"),
        el("span", { class: "row" }, parts.sort, parts.order))),
    el("div", { class: "above" }, parts.count, parts.compare), parts.table, parts.empty, parts.notes));
  return parts;
}

function field(id, label, input) {
  return el("span", { class: "field" }, el("label", { for: id }, label), input);
}

function headCell(key, label, state, parts) {
  const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
  const button = el("button", { type: "button", class: "sorter", onclick: () => {
    state.down = state.sort === key ? !state.down : FIGURES.has(key) || key === "changed_s";
    state.sort = key;
    parts.draw();
    remember(state);
  } }, label, arrow);
  const cell = el("th", { scope: "col", class: FIGURES.has(key) ? "figure" : null }, button);
  parts.heads.set(key, { cell, arrow });
  return cell;
}

function remember(state) {
  const query = new URLSearchParams();
  if (state.text) query.set("q", state.text);
  if (state.method) query.set("method", state.method);
  if (state.status) query.set("status", state.status);
  if (state.sort !== "changed_s") query.set("sort", state.sort);
  if (!state.down) query.set("order", "up");
  const text = query.toString();
  history.replaceState(null, "", text ? `/?${text}` : "/");
}

/** The rows that pass the filters, in order; exported for whoever tests it. */
export function visible(rows, { text, method, status, sort, down }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (row) => {
    const whole = [row.name, row.job, row.method, showStatus(row.status), row.party,
      row.seed == null ? "" : `seed ${row.seed}`].join(" ").toLowerCase();
    return words.every((word) => whole.includes(word))
      && (!method || family(row) === method) && (!status || row.status === status);
  };
  const place = down ? -1 : 1;
  return rows.filter(fits).sort((a, b) => {
    const [one, other] = [a[sort], b[sort]];
    if (one == null || other == null) return (one == null) - (other == null) || byName(a, b);
    const order = typeof one === "number" ? one - other : String(one).localeCompare(String(other));
    return place * order || byName(a, b);
  });
}

function byName(a, b) {
  return a.name.localeCompare(b.name, "en", { numeric: true });
}

function family(row) {
  return (row.method || "").split(":")[0];
}

function options(select, chosen, values, all) {
  const texts = ["", ...new Set(chosen ? [...values, chosen] : values)];
  const now = [...select.options].map((option) => option.value);
  if (now.join("\n") !== texts.join("\n")) {
    select.replaceChildren(...texts.map((value) =>
      el("option", { value }, value === "" ? all : select.id === "status" ? showStatus(value) : value)));
  }
  select.value = chosen;
}

function render(state, parts) {
  const all = [...state.rows.values()];
  options(parts.method, state.method, [...new Set(all.map(family).filter(Boolean))].sort(),
    "all methods");
  options(parts.status, state.status, [...new Set(all.map((row) => row.status))].sort(), "any status");
  parts.sort.value = state.sort;
  put(parts.order, state.down ? "↓" : "↑");
  parts.order.setAttribute("aria-label", state.down ? "falling; sort rising" : "rising; sort falling");
  for (const [key, { cell, arrow }] of parts.heads) {
    const sorted = key === state.sort;
    cell.setAttribute("aria-sort", sorted ? (state.down ? "descending" : "ascending") : "none");
    put(arrow, sorted ? (state.down ? " ↓" : " ↑") : "");
  }
  const shown = visible(all, state);
  const focused = document.activeElement;
  const nodes = shown.map((row) => rowNode(row, state, parts));
  if (nodes.length !== parts.body.children.length
      || nodes.some((node, place) => parts.body.children[place] !== node)) {
    parts.body.replaceChildren(...nodes);
    if (focused && focused !== document.activeElement && parts.body.contains(focused)) focused.focus();
  }
  const running = all.filter((row) => row.status === "running").length;
  const going = running ? `, ${running} running` : "";
  put(parts.count, shown.length === all.length
    ? `${plural(all.length)}${going}` : `${shown.length} of ${plural(all.length)}${going}`);
  chosenChanged(state, parts);
  parts.table.hidden = shown.length === 0;
  parts.empty.hidden = shown.length > 0;
  parts.empty.replaceChildren(...(shown.length ? [] : nothing(all.length)));
  parts.notes.replaceChildren(...state.notes.map((note) => el("li", {}, note)));
}

function plural(count) {
  return count === 1 ? "1 run" : `${showCount(count)} runs`;
}

function nothing(count) {
  if (count) return [el("p", {}, "No run passes the filters.")];
  return [el("p", {}, "There is no run in this folder yet. Start one, and it appears here:"),
    el("pre", {}, "colonnade simulate digits --out runs/first")];
}

function chosenChanged(state, parts) {
  const count = state.chosen.size;
  parts.compare.disabled = count < 2 || count > COMPARED_MAX;
  put(parts.compare, count > COMPARED_MAX ? `Compare (at most ${COMPARED_MAX})`
    : count < 2 ? "Compare: choose two or more" : `Compare ${count} runs`);
}

function rowNode(row, state, parts) {
  let known = state.nodes.get(row.id);
  if (!known) {
    const box = el("input", { type: "checkbox", onchange: (event) => {
      if (event.target.checked) state.chosen.add(row.id); else state.chosen.delete(row.id);
      chosenChanged(state, parts);
    } });
    const link = el("a", { href: `/run/${row.id}` });
    const more = el("span", { class: "more" });
    const cells = new Map(COLUMNS.map(([key, label]) => [key, el("td",
      { class: FIGURES.has(key) ? "figure" : key, "data-label": label })]));
    cells.get("name").append(link, more);
    known = { box, link, more, cells, status: "",
      node: el("tr", {}, el("td", { class: "pick" }, box), ...cells.values()) };
    state.nodes.set(row.id, known);
  }
  known.box.checked = state.chosen.has(row.id);
  known.box.setAttribute("aria-label", `Choose ${row.name}`);
  put(known.link, row.name);
  put(known.more, [row.job && row.job !== row.name ? row.job : "", row.party ? `party ${row.party}` : "",
    row.fault || ""].filter(Boolean).join(" · "));
  for (const [key, , text] of COLUMNS) {
    const cell = known.cells.get(key);
    if (key === "status") {
      if (known.status !== row.status) cell.replaceChildren(badge(row.status));
      known.status = row.status;
    } else if (key === "value") {
      put(cell, text(row));
      cell.title = row.metric ? `${row.metric}, ${row.value_of}` : "";
      if (row.metric) cell.append(el("span", { class: "unit" }, ` ${row.metric}`));
    } else if (key === "time_s") {
      put(cell, text(row));
      cell.title = row.clock === "virtual" ? "virtual time" : "wall-clock time";
    } else if (key !== "name") {
      put(cell, text(row));
    }
  }
  return known.node;
}
