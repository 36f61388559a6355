// Which page the address names.

import { showCompare, showRun } from "./run.js";
import { showList } from "./list.js";
import { showPlan } from "./plan.js";

const main = document.getElementById("main");
const path = location.pathname;
for (const link of document.querySelectorAll("nav a")) {
  if (link.getAttribute("href") === path) link.setAttribute("aria-current", "page");
}
if (path === "/plan") showPlan(main);
else if (path === "/compare") showCompare(main);
else if (path.startsWith("/run/")) showRun(main, path.slice("/run/".length));
else showList(main);
