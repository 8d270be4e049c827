"""The page at /docs: the OpenAPI as a page, from this server alone."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gpuwatch API</title>
<link rel="stylesheet" href="/docs/page.css">
<header><h1>gpuwatch API</h1>
<p>The same as <a href="/api/openapi.json">/api/openapi.json</a>. Requests sent from here carry this browser's token.</p>
<input id="filter" type="search" placeholder="Filter routes" aria-label="Filter routes"></header>
<main id="routes" aria-live="polite">Loading</main>
<noscript>This page needs JavaScript; /api/openapi.json says the same.</noscript>
<script src="/docs/page.js" defer></script>
</html>
"""

STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --accent: #1b7f5c; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; }
h1 { margin: 0; } h2 { border-bottom: 1px solid var(--line); margin: 2rem 0 .5rem; }
#filter { font: inherit; padding: .4rem .6rem; width: 100%; box-sizing: border-box; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
summary { cursor: pointer; padding: .45rem .7rem; display: flex; gap: .8rem; flex-wrap: wrap; }
details > div { padding: 0 .9rem .8rem; }
code, pre, textarea { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .6rem; overflow: auto; max-height: 28rem; border-radius: 4px; }
textarea { width: 100%; min-height: 6rem; box-sizing: border-box; }
.method { font-weight: 700; min-width: 4.2rem; color: var(--accent); } .muted { opacity: .75; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .5rem; vertical-align: top; }
td input { font: inherit; width: 100%; box-sizing: border-box; }
button { font: inherit; padding: .3rem .9rem; margin: .5rem 0; }
"""

SCRIPT = """
"use strict";
const make = (tag, text, attributes) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  return node;
};
const short = (api, schema, depth) => {
  if (!schema) return "any";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return depth > 3 ? name : short(api, api.components.schemas[name], depth + 1);
  }
  const many = schema.anyOf || schema.oneOf;
  if (many) {
    const options = many.map((one) => short(api, one, depth));
    return options.every((one) => typeof one === "string") ? [...new Set(options)].join(" | ") : options[0];
  }
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.const !== undefined) return String(schema.const);
  if (schema.type === "array") return [short(api, schema.items, depth + 1)];
  if (schema.type === "object" && schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([k, v]) => [k, short(api, v, depth + 1)]));
  }
  return (schema.format || schema.type || "any") + (schema.pattern && !schema.format ? " " + schema.pattern : "");
};
const parameters = (api, operation, fields) => {
  const table = make("table");
  for (const p of operation.parameters || []) {
    const row = make("tr");
    const name = make("td");
    name.append(make("code", p.name), make("div", p.in + (p.required ? ", required" : ""), { class: "muted" }));
    const cell = make("td");
    const input = make("input", undefined, { "aria-label": p.name, placeholder: p.schema.default ?? "" });
    fields.push([p, input]);
    cell.append(input);
    const kind = short(api, p.schema, 0);
    const words = (p.description || "") + " (" + (typeof kind === "string" ? kind : JSON.stringify(kind)) + ")";
    row.append(name, cell, make("td", words, { class: "muted" }));
    table.append(row);
  }
  return table;
};
const send = async (method, path, fields, body, kind, out) => {
  let url = path;
  const query = new URLSearchParams();
  for (const [p, input] of fields) {
    if (p.in === "path") url = url.replace("{" + p.name + "}", encodeURIComponent(input.value));
    else if (p.in === "query" && input.value !== "") query.append(p.name, input.value);
  }
  if ([...query].length) url += "?" + query;
  const options = { method: method.toUpperCase(), headers: {} };
  if (body && body.value) { options.body = body.value; options.headers["Content-Type"] = kind; }
  out.textContent = "...";
  try {
    const answer = await fetch(url, options);
    const text = await answer.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch (_) { /* not JSON: as it is */ }
    out.textContent = answer.status + " " + options.method + " " + url + "\\n\\n" + shown.slice(0, 100000);
  } catch (error) { out.textContent = String(error); }
};
const card = (api, path, method, operation) => {
  const box = make("details");
  const line = make("summary");
  line.append(make("span", method.toUpperCase(), { class: "method" }), make("code", path), make("span", operation.summary || ""));
  box.append(line);
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const inside = make("div");
    const fields = [];
    inside.append(make("p", operation.description || ""), parameters(api, operation, fields));
    const contents = (operation.requestBody || {}).content || {};
    const kind = Object.keys(contents)[0];
    let body;
    if (kind) {
      inside.append(make("p", "Body: " + Object.keys(contents).join(", ")));
      body = make("textarea", JSON.stringify(short(api, contents[kind].schema, 0), null, 2), { "aria-label": "body" });
      inside.append(body);
    }
    const out = make("pre");
    const button = make("button", "Send");
    button.addEventListener("click", () => send(method, path, fields, body, kind, out));
    inside.append(button, out);
    for (const [status, answer] of Object.entries(operation.responses || {})) {
      if (!status.startsWith("2")) continue;
      const schema = ((answer.content || {})["application/json"] || {}).schema;
      inside.append(make("p", status + " " + (answer.description || "")));
      if (schema) inside.append(make("pre", JSON.stringify(short(api, schema, 0), null, 2)));
    }
    box.append(inside);
  });
  return box;
};
const draw = (api) => {
  const wanted = document.getElementById("filter").value.toLowerCase();
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const text = (method + " " + path + " " + (operation.summary || "")).toLowerCase();
      if (!text.includes(wanted)) continue;
      const tag = (operation.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(card(api, path, method, operation));
    }
  }
  const main = document.getElementById("routes");
  main.replaceChildren();
  for (const [tag, cards] of groups) main.append(make("h2", tag), ...cards);
  if (!groups.size) main.append(make("p", "No route matches."));
};
fetch("/api/openapi.json").then((answer) => answer.json()).then((api) => {
  draw(api);
  document.getElementById("filter").addEventListener("input", () => draw(api));
}).catch((error) => { document.getElementById("routes").textContent = String(error); });
"""


def routes() -> list[Route]:
    """The page, its style and its script; nothing of it is loaded from elsewhere."""

    async def page(request: Request) -> Response:
        return HTMLResponse(PAGE)

    async def style(request: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def script(request: Request) -> Response:
        return Response(SCRIPT, media_type="text/javascript")

    return [Route("/docs", page), Route("/docs/page.css", style), Route("/docs/page.js", script)]
