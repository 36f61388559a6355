// What a job would cost with each method, and the command that starts it.

import { ask, el, order, problem, put, showCount } from "./common.js";

const LOOK_MS = 1000;

export function showPlan(page) {
  document.title = "Plan a run – Colonnade";
  const wanted = new URLSearchParams(location.search);
  const jobs = el("select", { id: "job" });
  const rows = el("input", { id: "rows", type: "number", min: 1, max: 1e9, step: 1,
    placeholder: "as in the data" });
  rows.value = wanted.get("rows") || "";
  const about = el("p", { class: "about" });
  const result = el("div", { "aria-live": "polite", "aria-busy": "false" });
  const go = el("button", { type: "submit" }, "Predict");
  page.replaceChildren(el("main", { class: "listing" }, el("h1", {}, "Plan a run"),
    el("p", { class: "lead" }, "What each method would cost on a job's links and at its speeds, "
      + "worked out without training, and the command that starts a run."),
    el("form", { class: "filters", onsubmit: (event) => {
      event.preventDefault();
      predict(jobs.value, rows.value, result, go);
    } }, field("job", "Job", jobs), field("rows", "Training rows", rows), go),
    about, result));
  let known = [];
  const tell = () => {
    const job = known.find((each) => each.id === jobs.value);
    put(about, job ? job.about : "");
    rows.placeholder = jobs.value.startsWith("builtin:") ? "as in the data" : "10000";
  };
  jobs.addEventListener("change", tell);
  ask("/api/jobs").then((told) => {
    known = told.jobs;
    jobs.append(...known.map((job) => el("option", { value: job.id }, job.name)));
    const asked = wanted.get("job");
    if (asked && known.some((job) => job.id === asked)) jobs.value = asked;
    else if (known.some((job) => job.id === "builtin:digits")) jobs.value = "builtin:digits";
    tell();
    if (asked) predict(jobs.value, rows.value, result, go);
  }).catch((error) => result.replaceChildren(problem(error.message)));
}

function field(id, label, input) {
  return el("span", { class: "field" }, el("label", { for: id }, label), input);
}

async function predict(job, rows, result, go) {
  const query = new URLSearchParams({ job });
  if (rows) query.set("rows", rows);
  history.replaceState(null, "", `/plan?${query}`);
  go.disabled = true;
  result.setAttribute("aria-busy", "true");
  result.replaceChildren(el("p", {}, "Working it out …"));
  try {
    const told = await ask(`/api/plan?${query}`);
    result.replaceChildren(...predicted(told, job));
  } catch (error) {
    result.replaceChildren(problem(error.message));
  }
  result.setAttribute("aria-busy", "false");
  go.disabled = false;
}

/** A button that starts a run, and what became of it. */
function starter(job, chosen) {
  const said = el("p", { class: "started", role: "status" });
  const button = el("button", { type: "button", onclick: async () => {
    button.disabled = true;
    put(said, "Starting …");
    try {
      const { name } = await order("/api/start", { job, method: chosen() });
      watch(name, said);
    } catch (error) {
      said.replaceChildren(problem(error.message));
    }
    button.disabled = false;
  } }, "Start");
  return [button, said];
}

/** Say how a started run stands, as long as the page shows it. */
async function watch(name, said) {
  while (said.isConnected) {
    let run = null;
    try {
      run = (await ask("/api/started")).runs.find((each) => each.name === name);
    } catch (error) {
      said.replaceChildren(problem(error.message));
      return;
    }
    if (run && run.state === "failed") {
      said.replaceChildren(problem(`${name}: ${run.said}`));
      return;
    }
    if (run && run.id) {
      said.replaceChildren(el("a", { href: `/run/${run.id}` }, name),
        run.state === "ended" ? " has ended." : " is under way.");
      if (run.state === "ended") return;
    } else put(said, `${name} has started.`);
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

function predicted(told, job) {
  const slowest = Math.max(...told.methods.map((line) => line.epoch_s), 0) || 1;
  const command = el("code", {}, "");
  let chosen = "";
  const choose = (line) => { put(command, line.command); chosen = line.method; };
  const lines = told.methods.map((line, place) => {
    const pick = el("input", { type: "radio", name: "method", id: `method-${place}`,
      onchange: () => choose(line) });
    const bar = el("span", { class: "bar-of", "aria-hidden": "true" }, el("span"));
    bar.firstChild.style.width = `${(100 * line.epoch_s) / slowest}%`;
    if (place === 0) { pick.checked = true; choose(line); }
    return el("tr", {},
      el("th", { scope: "row" }, pick, el("label", { for: `method-${place}` }, ` ${line.method}`)),
      cell("Time an epoch", line.epoch, "figure", bar), cell("Rounds a second", line.rounds_per_s, "figure"),
      cell("Bytes up", line.up, "figure"), cell("Bytes down", line.down, "figure"),
      cell("Busiest party", line.busiest), cell("What binds", `${sentence(line.why)} ${sentence(line.advice)}`));
  });
  const copy = el("button", { type: "button", class: "quiet", onclick: () => {
    navigator.clipboard.writeText(command.textContent).then(() => put(copy, "Copied"),
      () => getSelection().selectAllChildren(command));
    setTimeout(() => put(copy, "Copy"), 2000);
  } }, "Copy");
  const [start, started] = told.starts ? starter(job, () => chosen) : [null, null];
  return [
    el("p", {}, `${told.job}, with ${showCount(told.rows)} training rows. The same in a terminal: `,
      el("code", {}, told.plan)),
    el("div", { class: "command" }, el("span", {}, "Start it with "), command, copy, start),
    ...(started ? [started] : []),
    el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Predictions" },
      el("table", { class: "runs plan" },
        el("caption", { class: "unseen" }, "What an epoch costs with each method"),
        el("thead", {}, el("tr", {}, ...["Method", "Time an epoch", "Rounds a second", "Bytes up",
          "Bytes down", "Busiest party", "What binds, and what to change"].map((text, place) =>
          el("th", { scope: "col", class: place > 0 && place < 5 ? "figure" : null }, text)))),
        el("tbody", {}, ...lines))),
    el("ul", { class: "notes" }, ...told.notes.map((note) => el("li", {}, note))),
  ];
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}

function cell(label, text, kind = null, ...more) {
  return el("td", { class: kind, "data-label": label }, text, ...more);
}
