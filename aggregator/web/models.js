// Lists the models that were loaded on any node at any time during a session.
import { bytes, count, h, table, td } from "./dom.js";
import { download, session } from "./api.js";
import { action } from "./sessions.js";

/** Returns the cores of all loads, such as "0-3, 6". "any" means that the runtime chose the core. */
function cores(loads) {
  const used = new Set();
  for (const l of loads) for (let i = 0; i < (l.lnc_count ?? 1); i++) used.add(l.lnc_idx === undefined ? "any" : l.lnc_idx + i);
  const any = used.delete("any"), sorted = [...used].sort((a, b) => a - b), parts = [];
  for (const c of sorted) {
    if (parts.length > 0 && parts.at(-1)[1] === c - 1) parts.at(-1)[1] = c;
    else parts.push([c, c]);
  }
  return [...parts.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`)), ...(any ? ["any"] : [])].join(", ");
}

function gather(m) {
  const all = new Map();
  for (const n of m.nodes) {
    for (const model of n.models ?? []) {
      const key = model.sha256 ?? `${model.name} ${model.path} ${model.size}`, one = all.get(key) ?? { ...model, loads: [] };
      one.name ??= model.name;
      one.loads.push(...model.loads.map((l) => ({ ...l, node: n.instance_id })));
      all.set(key, one);
    }
  }
  return [...all.values()];
}

function row(m, model) {
  const loads = model.loads, neff = m.artifacts.find((a) => a.complete && a.sha256 === model.sha256);
  const first = loads.map((l) => l.loaded ?? "").sort()[0];
  return h("tr", {}, h("th", { scope: "row", class: "wrap" }, model.name ?? model.path ?? "–"), td((model.sha256 ?? "–").slice(0, 12), "long", model.sha256 ?? null), td(bytes(model.size), "num"),
    td(count(loads.length), "num"), td(count(loads.filter((l) => l.unloaded_ns === undefined).length), "num"), td(count(new Set(loads.map((l) => l.node)).size), "num"),
    td(count(new Set(loads.map((l) => `${l.node} ${l.process_id}`)).size), "num"), td(cores(loads)), td(first.slice(0, 19).replace("T", " ")),
    h("td", {}, neff ? action("NEFF", () => download(`${session(m.id)}/artifacts/${neff.sha256}`, `${neff.sha256.slice(0, 12)}.neff`)) : null));
}

/** Returns the section about models, or null if no agent reported a model. */
export function models(m) {
  const all = gather(m), left = m.nodes.reduce((sum, n) => sum + (n.models_left_out ?? 0), 0);
  if (all.length === 0) return null;
  return h("div", { id: "models" }, h("h3", {}, "Models ", h("span", { class: "quiet" }, count(all.length))),
    table("Models", [["Model"], ["Hash"], ["Size", "num"], ["Loads", "num"], ["Loaded at the end", "num"], ["Nodes", "num"], ["Processes", "num"], ["Cores"], ["First load (UTC)"], ["Actions"]], all.map((x) => row(m, x)), "stack"),
    left > 0 ? h("p", { class: "quiet" }, `${count(left)} loads are not listed: a node lists at most 512.`) : null);
}
