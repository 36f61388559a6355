// The page of one run, and of several side by side: the charts of the report, and above them what
// goes on now. Events of runs that go on are put into the facts that the charts are drawn from.
/* global Colonnade */

import { ask, badge, el, follow, problem, put, showBytes, showCount, showStatus, showTime,
  showValue } from "./common.js";
import { Progress, take } from "./events.js";

const DRAW_MS = 500;

export function showRun(page, id) {
  show(page, [id], false);
}

export function showCompare(page) {
  const ids = new URLSearchParams(location.search).getAll("run");
  if (ids.length) show(page, [...new Set(ids)], true);
  else page.replaceChildren(el("main", {}, el("h1", {}, "Compare"),
    problem("No run is chosen: tick two or more in the list, then press Compare.")));
}

async function show(page, ids, several) {
  document.title = several ? "Compare – Colonnade" : "Run – Colonnade";
  const query = ids.map((id) => `run=${encodeURIComponent(id)}`).join("&");
  const aside = el("section", { class: "live", "aria-label": "Now", hidden: true });
  const faults = el("div", { class: "faults" });
  const charts = el("div", { class: "charts" });
  page.replaceChildren(faults, aside, charts);
  // To read a long run takes a while, and an empty page says nothing.
  charts.replaceChildren(el("main", {}, el("p", { class: "soft", role: "status" }, "Reading the run…")));
  let facts = null;
  const load = async () => {
    try {
      facts = await ask(`/api/report?${query}`);
    } catch (error) {
      charts.replaceChildren(el("main", {}, el("h1", {}, several ? "Compare" : "Run"),
        problem(error.message)));
      return false;
    }
    faults.replaceChildren(...facts.faults.map((each) => problem(`${each.name}: ${each.fault}`)));
    if (!facts.runs.length) {
      charts.replaceChildren(el("main", {}, el("h1", {}, several ? "Compare" : "Run")));
      return false;
    }
    document.title = `${several ? "Compare" : facts.runs[0].folder} – Colonnade`;
    Colonnade.show(charts, facts);
    return true;
  };
  if (!(await load())) return;
  const going = facts.ids.filter((id, place) => facts.runs[place].state === "running");
  if (going.length) watch(going, facts, aside, charts, load, () => facts);
}

/** Follow runs that go on: draw now and then, and read all anew when one has ended. */
function watch(going, first, aside, charts, load, current) {
  const runs = new Map(going.map((id) => {
    const run = first.runs[first.ids.indexOf(id)];
    return [id, { progress: new Progress(run), panel: null, going: true }];
  }));
  let due = 0;
  const draw = () => {
    due = 0;
    const facts = current();
    for (const [id, each] of runs) {
      const run = facts.runs[facts.ids.indexOf(id)];
      if (run && each.going) each.progress.into(run, facts);
    }
    // What was found when the page was opened is old by now; the panel says it.
    if (facts.runs.length === 1 && [...runs.values()][0].going) {
      facts.headline = null;
      facts.level = { value: facts.runs[0].target, is: "the target" };
    }
    Colonnade.show(charts, facts);
    render(aside, runs, facts);
  };
  const soon = () => { if (!due) due = setTimeout(draw, DRAW_MS); };
  const lost = el("p", { class: "problem", role: "status", hidden: true },
    "The dashboard does not answer; this page tries again.");
  aside.append(lost);
  const stop = follow(`/api/live?${going.map((id) => `run=${id}`).join("&")}`, (told) => {
    const each = runs.get(told.run);
    if (!each) return;
    take(each.progress, told);
    if (told.goes_on === false && each.going) {
      each.going = false;
      // Its own files take a moment to be written, and then say more than the events did.
      setTimeout(() => load().then(() => render(aside, runs, current())), told.kept ? 0 : 1000);
    } else if (told.goes_on === true && !each.going) {
      each.going = true;
    }
    if (![...runs.values()].some((one) => one.going) && !told.kept) stop();
    soon();
  }, (gone) => { lost.hidden = !gone; });
  render(aside, runs, first);
}

function render(aside, runs, facts) {
  aside.hidden = false;
  for (const [id, each] of runs) {
    const run = facts.runs[facts.ids.indexOf(id)];
    if (!run) continue;
    each.panel = each.panel || panel(aside, run, runs.size > 1);
    update(each, run);
  }
}

function panel(aside, run, several) {
  const parts = { title: el(several ? "h2" : "h1", {}), bar: el("progress", { max: 1, "aria-label": "Rounds done" }),
    line: el("p", { class: "nowline", role: "status" }), figures: el("dl", { class: "figures" }),
    boxes: new Map(), body: el("tbody"), lines: new Map(), log: el("ol", { class: "log" }), said: 0 };
  const heads = ["Party", "Round", "In flight", "Window", "Staleness", "Local per fresh", "Up", "Down",
    "Now"];
  parts.table = el("div", { class: "scroll", tabindex: 0, role: "region",
    "aria-label": `The parties of ${run.folder} now` }, el("table", {},
    el("caption", { class: "hidden" }, "The parties now"),
    el("thead", {}, el("tr", {}, ...heads.map((head, place) => el("th",
      { scope: "col", class: place && place < 8 ? "number" : place ? "now" : null }, head)))), parts.body));
  parts.details = el("details", { class: "data" }, el("summary", {}, "What the parties said"), parts.log);
  parts.node = el("article", {}, parts.title, parts.bar, parts.line, several ? null : parts.figures,
    parts.table, parts.details);
  aside.append(parts.node);
  return parts;
}

function update(each, run) {
  const { progress, panel: parts, going } = each;
  // Of a run that has ended, the page below says more.
  parts.node.hidden = !going && run.state === "ended";
  const status = going ? "running" : run.status || "interrupted";
  if (parts.status !== status) {
    parts.status = status;
    const what = [run.method, run.job && `on ${run.job}`].filter(Boolean).join(" ");
    parts.title.replaceChildren(`${run.folder} `, badge(status),
      el("span", { class: "more" }, what ? `${what}, seed ${run.seed}` : ""));
  }
  const { done, all, rate } = progress;
  parts.bar.hidden = !going;
  parts.bar.value = all ? Math.min(1, done / all) : 0;
  const left = going && rate && all > done ? `, about ${showTime((all - done) / rate)} left` : "";
  const pace = going && rate ? `, ${rate >= 10 ? Math.round(rate) : rate.toPrecision(2)} rounds a second` : "";
  put(parts.line, all ? `Round ${showCount(done)} of ${showCount(all)}${pace}${left}`
    : going ? "No round is done yet." : showStatus(run.status || "interrupted"));
  box(parts, progress.metric || "metric", showValue(progress.latest), progress.best == null ? ""
    : `best ${showValue(progress.best)}`);
  box(parts, run.clock === "virtual" || progress.clock === "virtual" ? "virtual time" : "time",
    showTime(progress.time_s), "");
  box(parts, "bytes up", showBytes(progress.up), "");
  box(parts, "bytes down", showBytes(progress.down), "");
  for (const [party, now] of progress.parties) {
    let cells = parts.lines.get(party);
    if (!cells) {
      cells = Array.from({ length: 9 }, (_, place) => el(place ? "td" : "th",
        { class: place && place < 8 ? "number" : place ? "now" : null, scope: place ? null : "row" }));
      parts.lines.set(party, cells);
      parts.body.append(el("tr", {}, ...cells));
    }
    const texts = [party, showCount(now.round), showCount(now.in_flight), showCount(now.window),
      showCount(now.staleness), now.fresh ? (now.local / now.fresh).toFixed(2) : "–",
      now.up ? showBytes(now.up) : "–", now.down ? showBytes(now.down) : "–", now.waits || now.said || "–"];
    texts.forEach((text, place) => put(cells[place], text));
  }
  parts.table.hidden = !progress.parties.size;
  parts.details.hidden = !progress.log.length;
  if (parts.said !== progress.told) {
    parts.said = progress.told;
    parts.log.replaceChildren(...progress.log.map((line) => el("li", {}, line)));
  }
}

function box(parts, label, value, note) {
  let known = parts.boxes.get(parts.boxes.has(label) ? label : kindOf(label));
  if (!known) {
    known = { dt: el("dt"), b: el("b"), span: el("span") };
    parts.boxes.set(kindOf(label), known);
    parts.figures.append(el("div", {}, known.dt, el("dd", {}, known.b, known.span)));
  }
  put(known.dt, label);
  put(known.b, value);
  put(known.span, note);
}

function kindOf(label) {
  return ["virtual time", "time"].includes(label) ? "time"
    : ["bytes up", "bytes down"].includes(label) ? label : "metric";
}
