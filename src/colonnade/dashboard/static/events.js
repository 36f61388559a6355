// What the events of a run that goes on add up to. They come from a file that anybody may have
// written: whatever is not of the kind that it should be is left out.

const LOG_MAX = 30;
const POINTS_MAX = 4000;
const RATE_MS = 30000;

const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);
const text = (value) => (typeof value === "string" ? value : "");

/** Where a run is: its curve, and each party's state. */
export class Progress {
  constructor(run) {
    this.active = text(run.active);
    this.clock = text(run.clock);
    this.anew();
  }

  anew() {
    this.history = { round: [], time_s: [], bytes_up: [], bytes_down: [], bytes: [] };
    this.exchanges = new Map();
    this.parties = new Map();
    this.log = [];
    this.told = 0;
    this.done = 0;
    this.all = 0;
    this.rate = 0;
    this.seen = [];
    this.metric = "";
    this.latest = null;
    this.best = null;
    this.time_s = null;
    this.up = null;
    this.down = null;
  }

  /** Put what is known into the facts of the run, as the charts read them. */
  into(run, facts) {
    run.history = this.history;
    const drawn = [...this.exchanges.values()].filter((each) => each.time_s.length > 1);
    if (drawn.length) run.exchanges = drawn;
    if (!run.metric.name && this.metric) run.metric.name = this.metric;
    if (!facts.metric && this.metric) facts.metric = this.metric;
    const place = facts.runs.indexOf(run);
    for (const group of facts.groups) if (group.runs.includes(place)) group.bands = {};
  }

  party(name) {
    if (!this.parties.has(name) && this.parties.size < 200) {
      this.parties.set(name, { round: null, window: null, in_flight: null, staleness: null,
        local: null, fresh: null, up: null, down: null, waits: "", said: "" });
    }
    return this.parties.get(name);
  }
}

export function take(progress, told) {
  if (told.anew) progress.anew();
  for (const event of told.events || []) hear(progress, event);
  // What was there when the page was opened comes all at once, and tells no speed.
  if (told.goes_on !== undefined) progress.seen = [];
  pace(progress);
}

function hear(progress, event) {
  const act = { Opened: opened, Resumed: resumed, RoundDone: round, Evaluated: evaluated, Waiting: waiting,
    Busy: busy }[event.type];
  if (act) act(progress, event);
  const line = sentence(event);
  if (!line) return;
  progress.told += 1;
  progress.log.unshift(line);
  progress.log.length = Math.min(progress.log.length, LOG_MAX);
  const party = progress.party(text(event.party));
  if (party && event.type !== "Evaluated") party.said = line.slice(line.indexOf(": ") + 2);
}

function opened(progress, event) {
  progress.active = text(event.active) || progress.active;
  progress.clock = text(event.clock) || progress.clock;
  // A simulation always begins from its first round.
  if (event.clock === "virtual" && progress.done) {
    const { active, clock } = progress;
    progress.anew();
    Object.assign(progress, { active, clock });
  }
}

function resumed(progress, event) {
  const kept = number(event.round) || 0;
  const history = progress.history;
  const count = history.round.filter((value) => value <= kept).length;
  for (const column of Object.values(history)) column.length = count;
  for (const each of progress.exchanges.values()) {
    const points = each.round.filter((value) => value <= kept).length;
    for (const column of Object.values(each)) if (Array.isArray(column)) column.length = points;
  }
  progress.done = Math.min(progress.done, kept);
  progress.seen = [];
}

function round(progress, event) {
  const name = text(event.party);
  const done = (number(event.round) || 0) + 1;
  const party = progress.party(name);
  if (!party) return;
  Object.assign(party, { round: done, window: number(event.window), in_flight: number(event.in_flight),
    staleness: number(event.staleness), local: number(event.local), fresh: number(event.fresh),
    up: number(event.bytes_up), down: number(event.bytes_down), waits: "" });
  if (number(event.window) !== null) exchange(progress, name, done, event);
  const time = number(event.time_ns);
  if (time !== null) progress.time_s = Math.max(progress.time_s || 0, time / 1e9);
  if (name !== progress.active && progress.active && progress.parties.has(progress.active)) return;
  progress.done = done;
  progress.all = number(event.rounds) || progress.all;
  if (party.up) progress.up = party.up;
  if (party.down) progress.down = party.down;
}

/** How fast the rounds are done, by this browser's clock: that of a simulation is virtual. */
function pace(progress) {
  const now = performance.now();
  const { done, seen } = progress;
  seen.push([now, done]);
  while (seen.length > 2 && now - seen[0][0] > RATE_MS) seen.shift();
  const [begun, first] = seen[0];
  progress.rate = now - begun > 1500 ? ((done - first) * 1000) / (now - begun) : 0;
}

function exchange(progress, name, done, event) {
  if (!progress.exchanges.has(name)) {
    progress.exchanges.set(name, { party: name, rounds: 0, round: [], time_s: [], window: [],
      in_flight: [], staleness: [], updates: [] });
  }
  const each = progress.exchanges.get(name);
  each.rounds = done;
  each.round.push(done);
  each.time_s.push((number(event.time_ns) || 0) / 1e9);
  for (const key of ["window", "in_flight", "staleness", "updates"]) each[key].push(number(event[key]));
  thin(each, each.round.length);
}

function evaluated(progress, event) {
  const history = progress.history;
  const rows = history.round.length;
  const up = number(event.bytes_up);
  const down = number(event.bytes_down);
  const values = { round: (number(event.round) || 0) + 1, time_s: (number(event.time_ns) || 0) / 1e9,
    bytes_up: up, bytes_down: down, bytes: up === null || down === null ? null : up + down };
  const measured = event.measured && typeof event.measured === "object" ? event.measured : {};
  for (const [name, value] of Object.entries(measured).slice(0, 40)) {
    if (!Object.hasOwn(values, name)) values[name] = number(value);
  }
  for (const [name, value] of Object.entries(values)) {
    if (!Object.hasOwn(history, name)) history[name] = Array(rows).fill(null);
    history[name].push(value);
  }
  for (const column of Object.values(history)) if (column.length === rows) column.push(null);
  thin(history, rows + 1);
  const names = Object.keys(measured);
  progress.metric = names.find((name) => name === "log_loss" || !name.endsWith("_loss")) || names[0] || "";
  progress.latest = number(measured[progress.metric]);
  if (event.best === true || progress.best === null) progress.best = progress.latest;
  progress.up = up === null ? progress.up : Math.max(up, progress.up || 0);
  progress.down = down === null ? progress.down : Math.max(down, progress.down || 0);
}

function thin(columns, count) {
  if (count <= POINTS_MAX) return;
  for (const [name, column] of Object.entries(columns)) {
    if (Array.isArray(column)) columns[name] = column.filter((_, place) => place % 2 === 1 || place === count - 1);
  }
}

function waiting(progress, event) {
  const party = progress.party(text(event.party));
  if (party) party.waits = text(event.what);
}

function busy(progress, event) {
  const party = progress.party(text(event.party));
  if (!party) return;
  const spent = (table) => Object.entries(table && typeof table === "object" ? table : {})
    .map(([name, ns]) => [name, number(ns) || 0]).sort((a, b) => b[1] - a[1]);
  const worked = spent(event.worked);
  const waited = spent(event.waited);
  const all = [...worked, ...waited].reduce((sum, [, ns]) => sum + ns, 0);
  if (!all) return;
  const share = (list) => Math.round((100 * list.reduce((sum, [, ns]) => sum + ns, 0)) / all);
  const whom = waited.length && waited[0][0] ? ` for ${waited[0][0]}` : "";
  party.said = `computes ${share(worked)} %, waits${whom} ${share(waited)} %`;
}

/** As a line of the log; nothing for what is no line of its own. */
function sentence(event) {
  const who = text(event.party);
  const figures = (measured) => Object.entries(measured && typeof measured === "object" ? measured : {})
    .map(([name, value]) => `${name} ${number(value) === null ? "–" : value.toFixed(4)}`).join(", ");
  const said = {
    Evaluated: () => `round ${(number(event.round) || 0) + 1}, ${figures(event.measured)}`,
    Tested: () => `test rows, ${figures(event.measured)}`,
    Notice: () => text(event.text),
    Recorded: () => text(event.text),
    Started: () => (event.again ? "starts again" : "starts"),
    Connected: () => `connected with ${text(event.peer)}`,
    Disconnected: () => `the connection with ${text(event.peer)} is lost`,
    PeerLeft: () => `${text(event.peer)} left: ${text(event.reason)}`,
    PeerFailed: () => `${text(event.peer)} failed: ${text(event.reason)}`,
    Refused: () => `refused ${text(event.peer)}: ${text(event.reason)}`,
    Resumed: () => `goes on from the end of round ${number(event.round) || 0}`,
    Saved: () => `saved the checkpoint of round ${number(event.round) || 0}`,
    Calibrated: () => `measured speeds and links after ${number(event.round) || 0} rounds`,
    Finished: () => `ends: ${text(event.reason)} ${text(event.detail)}`,
  }[event.type];
  const line = said ? said().trim() : "";
  return line && `${who}: ${line}`.slice(0, 400);
}
