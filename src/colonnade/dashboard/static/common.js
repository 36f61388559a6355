// What all pages share: elements whose text is only ever text, figures as people read them, and
// questions to the server.
/* global Colonnade */

/** An element; strings among its children are text, never markup. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** Put a text where it is not there already, so that nothing flickers. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

async function answered(reply) {
  if (reply.status === 401) location.reload();
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(body.error || `The dashboard answers ${reply.status}.`);
  return body;
}

export async function ask(path) {
  return answered(await fetch(path, { headers: { accept: "application/json" } }));
}

/** Ask for something to be done; no page but ours can send such a header. */
export async function order(path, wish) {
  const reply = await fetch(path, { method: "POST", body: JSON.stringify(wish),
    headers: { accept: "application/json", "x-colonnade-start": "yes" } });
  return answered(reply);
}

/** Follow a stream while the page is looked at: a browser has few connections to one host. */
export function follow(address, hear, lost = () => {}) {
  let source = null;
  let last = "";
  let timer = 0;
  const close = () => { clearTimeout(timer); if (source) source.close(); source = null; };
  const open = () => {
    close();
    const sign = address.includes("?") ? "&" : "?";
    source = new EventSource(last ? `${address}${sign}from=${encodeURIComponent(last)}` : address);
    source.onmessage = (event) => {
      lost(false);
      last = event.lastEventId || last;
      hear(JSON.parse(event.data));
    };
    source.onerror = () => {
      lost(true);
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        timer = setTimeout(open, 5000);
      }
    };
  };
  const look = () => (document.hidden ? close() : source || open());
  document.addEventListener("visibilitychange", look);
  look();
  return () => { document.removeEventListener("visibilitychange", look); close(); };
}

const number = (value) => typeof value === "number" && Number.isFinite(value);

// As the charts show them.
export const { seconds: showTime, bytes: showBytes, count: showCount } = Colonnade;

export function showValue(value) {
  if (!number(value)) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 0.001 || size >= 10000) ? value.toExponential(2) : value.toFixed(4);
}

export function showWhen(seconds) {
  if (!number(seconds)) return "–";
  const date = new Date(seconds * 1000);
  const pad = (n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

const ENDINGS = {
  running: "running",
  interrupted: "interrupted",
  damaged: "cannot be read",
  end: "all rounds done",
  target: "target reached",
  patience: "stopped improving",
  diverged: "diverged",
  failed: "failed",
};

/** How a run stands, in words. */
export function showStatus(status) {
  return Object.hasOwn(ENDINGS, status) ? ENDINGS[status] : String(status);
}

/** A mark beside the words, told apart by its shape as well as by its colour. */
export function badge(status) {
  const kind = { running: "on", interrupted: "cut", damaged: "bad", diverged: "bad", failed: "bad" };
  const shape = { on: "●", cut: "◐", bad: "✕", done: "✓" }[kind[status] || "done"];
  return el("span", { class: `status ${kind[status] || "done"}` },
    el("span", { class: "shape", "aria-hidden": "true" }, shape), ` ${showStatus(status)}`);
}

export function problem(sentence) {
  return el("p", { class: "problem", role: "alert" }, sentence);
}
