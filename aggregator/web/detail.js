// One session: progress, each node's coverage, triggers, files, the overview.
import { $, LISTED, allNodesButton, bytes, count, dur, h, percent, say, table, td, tone } from "./dom.js";
import { download, get, may, post, session } from "./api.js";
import { action, isOpen, triggerRequest } from "./sessions.js";
import { models } from "./models.js";
import { deviceProfiles, isDeviceProfile, systemProfile } from "./profiles.js";
import { overview } from "./overview.js";
import { report } from "./report.js";

let shown = null; // {id, picture, words, live: what is written again, text: what it was made of, all: every node is listed}

/** How far: of the duration while recording, of the events while merging. */
function progress(m) {
  if (m.state === "merging" || m.profile.state === "running") return [m.profile.events, m.profile.total, `${count(m.profile.events)} of ${count(m.profile.total)} events merged`];
  if (m.state === "recording" && m.duration_ns > 0 && m.go_ns) {
    const gone = Math.min(m.duration_ns, Math.max(0, Date.now() * 1e6 - m.go_ns));
    return [gone, m.duration_ns, `${dur(gone)} of ${dur(m.duration_ns)}`];
  }
  return null;
}

function facts(m) {
  const at = progress(m);
  const rows = [
    ["State", h("span", { class: tone(m.state) }, m.state + (m.message ? `: ${m.message}` : "") + (m.empty ? `; nothing was recorded: ${m.empty}` : ""))],
    ["Progress", at ? h("span", {}, h("progress", { value: at[0], max: Math.max(1, at[1]), "aria-label": "progress" }), ` ${at[2]}`) : null],
    ["Window (UTC)", m.go ? `${m.go} to ${m.stop ?? "now"}` : null],
    ["Stored", `${count(m.events)} events, ${bytes(m.bytes)}`],
    ["Counted by agents", `${count(m.begun)} begun, ${count(m.dropped)} dropped, ${count(m.held)} still held`],
    ["Profile", m.profile.state + (m.profile.message ? `: ${m.profile.message}` : "")],
    ...(m.export ? [["Export", m.export.state + (m.export.message ? `: ${m.export.message}` : "")]] : []),
  ];
  return h("dl", {}, ...rows.filter(([, v]) => v !== null).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

function nodeRow(n) {
  const lost = n.counters.dropped - n.counters.unwanted;
  const damaged = n.damaged_events > 0 || n.damaged_frames > 0
    ? `the journal is damaged: ${count(n.damaged_events)} stored events and ${count(n.damaged_frames)} frames cannot be read back` : "";
  const refused = n.refused_files > 0 ? `${count(n.refused_files)} files were refused, the last: ${n.refused_file}` : "";
  const foreign = n.foreign_batches > 0 ? `${count(n.foreign_batches)} batches claimed another node` : "";
  const drops = n.counters.drops.map((d) => `${d.cause}: ${count(d.count)}`).join(", ");
  return h("tr", {},
    h("th", { scope: "row" }, n.instance_id + (n.simulated ? " (simulated)" : "")),
    td(n.state, tone(n.state)),
    td(count(n.events), "num"),
    td(percent(n.events, n.events + lost), "num", "stored, of stored and lost"),
    td(n.first_local_ns === undefined ? "–" : dur(n.last_local_ns - n.first_local_ns), "num", "first to last event"),
    td(count(lost), lost > 0 ? "num bad" : "num"),
    td(count(n.missing_batches), n.missing_batches > 0 ? "num bad" : "num"),
    td(n.clock.bound_ns < 0 ? "–" : `± ${dur(n.clock.bound_ns)}`, "num"),
    td([n.message, n.unread?.message, damaged, refused, foreign, drops].filter(Boolean).join("; "), damaged ? "wrap bad" : "wrap"));
}

/** What the reader of a session looks at first. */
const needsAttention = (n) => tone(n.state) === "bad" || n.message !== "" || n.counters.dropped > n.counters.unwanted || n.missing_batches > 0 ||
  n.damaged_events > 0 || n.damaged_frames > 0 || n.foreign_batches > 0 || n.unread?.message !== undefined;

function nodes(m) {
  const listed = [...m.nodes].sort((a, b) => needsAttention(b) - needsAttention(a) || (a.instance_id < b.instance_id ? -1 : 1)).slice(0, shown.all ? m.nodes.length : LISTED);
  const button = h("button", { type: "button", onclick: () => { shown.all = !shown.all; shown.text = ""; write(m); } });
  return h("div", {}, h("h3", {}, "Nodes of the session ", h("span", { class: "quiet" }, count(m.nodes.length))),
    table([["Node"], ["State"], ["Events", "num"], ["Coverage", "num"], ["Recorded", "num"], ["Dropped", "num"], ["Missing batches", "num"], ["Clock", "num"], ["Remarks"]], listed.map(nodeRow), "stack"),
    h("p", { class: "after" }, allNodesButton(button, m.nodes.length, shown.all)));
}

const triggers = (m) => m.triggers.length === 0 ? null : h("div", {}, h("h3", {}, "Triggers"),
  table([["Trigger"], ["From"], ["To"], ["Nodes", "num"], ["Reason"]], m.triggers.map((t) =>
    h("tr", {}, h("th", { scope: "row" }, t.id), td(t.from ?? "–"), td(t.to ?? "–"), td(count(t.answered), "num"), td(t.reason, "wrap")))));

function artifacts(m) {
  const others = m.artifacts.filter((a) => !isDeviceProfile(a));
  return others.length === 0 ? null : h("div", {}, h("h3", {}, "Artifacts ", h("span", { class: "quiet" }, count(others.length))),
    table([["Name"], ["Kind"], ["Node"], ["Size", "num"], ["Actions"]], others.map((a) =>
      h("tr", {}, h("th", { scope: "row", class: "wrap" }, a.name), td(a.kind), td(a.instance_id), td(bytes(a.size), "num"),
        h("td", {}, a.complete ? action("Download", () => download(`${session(m.id)}/artifacts/${a.sha256}`, a.name)) : "incomplete"))), "stack"));
}

function actions(m) {
  if (!may("control")) return null;
  const at = session(m.id), all = [
    isOpen(m.state) ? action("Stop", () => post(`${at}/stop`)) : null,
    isOpen(m.state) && m.mode === "recorder" ? action("Trigger", () => post(`${at}/trigger`, triggerRequest())) : null,
    m.state === "complete" ? action("Merge again", () => post(`${at}/merge`)) : null].filter(Boolean);
  return all.length === 0 ? null : h("div", { class: "actions" }, ...all);
}

/** Written again only when something changed; a button that had the focus gets it back. */
function write(m) {
  const text = JSON.stringify([m, Math.floor((progress(m)?.[0] ?? 0) / 5e8)]);
  if (text === shown.text) return;
  shown.text = text;
  const named = (text) => [...shown.live.querySelectorAll("button")].filter((b) => b.textContent === text); // in their order
  const focused = shown.live.contains(document.activeElement) ? document.activeElement.textContent : null;
  const nth = named(focused).indexOf(document.activeElement);
  shown.live.replaceChildren(...[facts(m), actions(m), systemProfile(m), deviceProfiles(m), nodes(m), models(m), triggers(m), artifacts(m)].filter(Boolean));
  if (focused !== null) (named(focused)[nth] ?? named(focused)[0] ?? $("detail")).focus({ preventScroll: true });
  shown.picture.update(m.events);
  shown.words.update(m.events);
}

export const chosenId = () => shown?.id ?? null;

export function closeDetail() {
  shown = null;
  $("detail").hidden = true;
  $("detail").replaceChildren();
}

export async function refreshDetail() {
  const mine = shown;
  if (!mine) return;
  const m = await get(session(mine.id));
  if (shown === mine) write(m);
}

export function openDetail(id) {
  const picture = overview(id), words = report(id);
  shown = { id, picture, words, live: h("div"), text: "", all: false };
  const box = $("detail");
  box.hidden = false;
  box.replaceChildren(h("h2", { id: "detail-title" }, `Session ${id} `, h("button", { type: "button", onclick: closeDetail }, "Close")), shown.live, words.element, picture.element);
  box.focus({ preventScroll: true });
  box.scrollIntoView({ block: "nearest" });
  refreshDetail().catch((e) => say(e.message));
}
