// Which page the address names.

import { showCompare, showRun } from "./run.js";
import { showList } from "./list.js";
import { showPlan } from "./plan.js";

// The page that asks for the token takes it out of the address; whoever is let in already never sees that page.
if (new URLSearchParams(location.hash.slice(1)).has("token"))
  history.replaceState(null, "", location.pathname + location.search);

const page = document.getElementById("page");
const path = location.pathname;
for (const link of document.querySelectorAll("nav a")) {
  if (link.getAttribute("href") === path) link.setAttribute("aria-current", "page");
}
if (path === "/plan") showPlan(page);
else if (path === "/compare") showCompare(page);
else if (path.startsWith("/run/")) showRun(page, path.slice("/run/".length));
else showList(page);
