// A report carries its facts with it.
"use strict";
Colonnade.show(document.getElementById("page"), JSON.parse(document.getElementById("facts").textContent));
