// Lists jobs that make no progress, and the rank that causes this.
import { $, dur, h, put, when } from "./dom.js";

const rank = (c) => `rank ${c.rank ?? "?"} on ${c.instance_id} (pid ${c.process_id}, ${c.state}${c.inside ? `, in ${c.inside}` : ""})`;

const opened = new Set(); // keys of the stacks that the user has opened; the list is rebuilt at each update and must open them again

function stack(v, s) {
  const key = `${v.id} ${s.instance_id} ${s.process_id}`;
  const remember = (event) => event.target.open ? opened.add(key) : opened.delete(key);
  return h("details", { open: opened.has(key), ontoggle: remember }, h("summary", {}, `Where rank ${s.rank ?? "?"} waits${s.culprit ? " (named)" : ""}`), h("pre", {}, s.text));
}

function line(v) {
  const named = v.culprits.map(rank).join("; ");
  return h("li", { "data-hang": String(v.id) }, h("strong", {}, `Job ${v.job.job ?? "?"}`), ` stands still since ${when(v.since)} UTC (${dur(v.lasts_ns)}): `,
    h("span", { class: "bad" }, v.verdict), ` – ${v.reason}.`, named ? h("span", { class: "quiet" }, ` ${named}`) : null, ...v.stacks.map((s) => stack(v, s)));
}

export function showHangs(list) {
  $("hangs-section").hidden = list.length === 0;
  put($("hangs-count"), String(list.length));
  $("hangs").replaceChildren(...list.map(line));
}
