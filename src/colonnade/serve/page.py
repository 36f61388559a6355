"""What the service understands, as an OpenAPI document and as a page that needs no other host."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from colonnade.predict.request import ROWS_MAX

if TYPE_CHECKING:
    from colonnade.serve.service import Service

_TEXTS = {"type": "array", "items": {"type": "string"}}
_ID = {
    "oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "array", "items": {}}],
    "description": "the id of a row; a list where several columns name a row",
}
_MODEL = {
    "type": "object",
    "properties": {"run": {"type": "string"}, "version": {"type": "string"}},
}


def described(service: Service) -> dict[str, Any]:
    """The OpenAPI document of a service."""
    error = {"type": "object", "properties": {"error": {"type": "string"}, "late": _TEXTS}}
    responses = {
        "200": _json("the rows, in the order in which they were asked for", _answer()),
        **{
            status: _json(why, error)
            for status, why in (
                ("401", "the token is missing or wrong"),
                ("403", "a party declines, and says why"),
                ("413", "the body is too large"),
                ("415", "the body is not declared as JSON"),
                ("422", "the body is wrong: one sentence says how"),
                ("429", "a party declines for now: see Retry-After"),
                ("503", "too much waits already: see Retry-After"),
                ("504", "the time is up: `late` names the parties that did not answer"),
            )
        },
    }
    get = {
        path: {"get": {"summary": said, "responses": {"200": {"description": said}}}}
        for path, said in (
            ("/health", "who is connected, and which models are loaded; 503 while one is away"),
            ("/metrics", "figures for Prometheus"),
            ("/openapi.json", "this document"),
        )
    }
    asks = {
        "summary": "score rows",
        "requestBody": {"required": True, **_content(_request(service))},
        "responses": responses,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "colonnade serve", "version": version("colonnade")},
        "paths": {"/predict": {"post": asks}, **get},
    }


def _request(service: Service) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "ids": {"type": "array", "items": _ID, "minItems": 1, "maxItems": ROWS_MAX},
            "rows": {
                "type": "array",
                "items": {"type": "object"},
                "description": "instead of ids: rows with the active party's own columns, and the "
                "id",
            },
            "model": {
                "type": "string",
                "enum": list(service.models),
                "description": "a version; by default the first",
            },
            "missing": {
                "type": "string",
                "enum": ["null", "mean"],
                "description": "a row that a party lacks has no score, or one with the mean of "
                "that party's embeddings",
            },
            "deadline_ms": {"type": "integer", "minimum": 1, "maximum": int(service.deadline_ms)},
        },
    }


def _answer() -> dict[str, Any]:
    row = {
        "type": "object",
        "properties": {
            "id": _ID,
            "prediction": {"type": ["string", "number", "null"]},
            "probabilities": {
                "type": ["object", "null"],
                "additionalProperties": {"type": "number"},
                "description": "calibrated, by the name of the class",
            },
            "missing": {**_TEXTS, "type": ["array", "null"]},
            "imputed": {"type": ["string", "null"]},
        },
    }
    return {
        "type": "object",
        "properties": {
            "model": _MODEL,
            "missing": {"type": "string"},
            "rows": {"type": "array", "items": row},
        },
    }


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, **_content(schema)}


PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "x-content-type-options": "nosniff",
}
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>colonnade serve</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
pre, textarea { font: 14px/1.4 ui-monospace, monospace; background: #f4f4f2; padding: .7rem;
  width: 100%; box-sizing: border-box; border: 0; overflow: auto }
h2 { margin-top: 2rem } code { font-weight: 600 } dt { font-weight: 600 } input { width: 20rem }
</style>
<h1>colonnade serve</h1>
<p id="state">…</p>
<h2>Try it</h2>
<p><label>Token, if there is one: <input id="token" type="password" autocomplete="off"></label></p>
<textarea id="body" rows="4" spellcheck="false">{"ids": ["c1"]}</textarea>
<p><button id="ask">POST /predict</button></p>
<pre id="answer"></pre>
<h2>What can be asked</h2>
<div id="paths"></div>
<p>The whole description is <a href="/openapi.json">openapi.json</a>.</p>
<script>
const at = name => document.getElementById(name);
const headers = () => at("token").value ? {authorization: "Bearer " + at("token").value} : {};
const show = value => JSON.stringify(value, null, 1);
function add(parent, kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return parent.appendChild(made);
}
at("ask").onclick = async () => {
  try {
    const reply = await fetch("/predict", {method: "POST", body: at("body").value,
      headers: {"content-type": "application/json", ...headers()}});
    at("answer").textContent = reply.status + "\\n" + show(await reply.json());
  } catch (error) { at("answer").textContent = String(error); }
};
async function load() {
  const health = await (await fetch("/health", {headers: headers()})).json();
  at("state").textContent = show(health);
  const reply = await fetch("/openapi.json", {headers: headers()});
  if (!reply.ok) return;
  at("paths").textContent = "";
  for (const [path, ways] of Object.entries((await reply.json()).paths))
    for (const [way, what] of Object.entries(ways)) {
      add(at("paths"), "h3", way.toUpperCase() + " " + path);
      add(at("paths"), "p", what.summary);
      if (what.requestBody) add(at("paths"), "pre",
        show(what.requestBody.content["application/json"].schema.properties));
      const list = add(at("paths"), "dl", "");
      for (const [status, said] of Object.entries(what.responses)) {
        add(list, "dt", status); add(list, "dd", said.description);
      }
    }
}
at("token").onchange = load;
load();
</script>
"""
