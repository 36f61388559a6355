// Which page the address names.

import { showCompare, showRun } from "./run.js";
import { showList } from "./list.js";
import { showPlan } from "./plan.js";

const page = document.getElementById("page");
const path = location.pathname;
for (const link of document.querySelectorAll("nav a")) {
  if (link.getAttribute("href") === path) link.setAttribute("aria-current", "page");
}
if (path === "/plan") showPlan(page);
else if (path === "/compare") showCompare(page);
else if (path.startsWith("/run/")) showRun(page, path.slice("/run/".length));
else showList(page);
