// The section about one session: its progress, the coverage of each node, triggers, files, and the overview.
import { $, LISTED, allNodesButton, bytes, count, dur, h, percent, put, say, table, td, tone, utc } from "./dom.js";
import { download, get, may, post, session } from "./api.js";
import { action, isOpen, jobsText, sessionButton, triggerRequest } from "./sessions.js";
import { models } from "./models.js";
import { deviceProfiles, isDeviceProfile, systemProfile } from "./profiles.js";
import { overview } from "./overview.js";
import { report } from "./report.js";

let shown = null; // {id, named: element with the name, picture: overview, words: report, live: the two parts that are rewritten after a change, text: the state that they show, all: whether every node is listed}

/** Returns [done, total, text]: recorded time while recording, merged events while merging; null in other states. */
function progress(m) {
  if (m.state === "merging" || m.profile.state === "running") return [m.profile.events, m.profile.total, `${count(m.profile.events)} of ${count(m.profile.total)} events merged`];
  if (m.state === "recording" && m.duration_ns > 0 && m.go_ns) {
    const gone = Math.min(m.duration_ns, Math.max(0, Date.now() * 1e6 - m.go_ns));
    return [gone, m.duration_ns, `${dur(gone)} of ${dur(m.duration_ns)}`];
  }
  return null;
}

const said = ({ state, message }) => h("span", { class: tone(state) }, state + (message ? `: ${message}` : ""));

function facts(m) {
  const at = progress(m), unwanted = m.nodes.reduce((sum, n) => sum + n.counters.unwanted, 0);
  const rows = [
    ["State", h("span", { class: tone(m.state) }, (m.paused && isOpen(m.state) ? `${m.state}, paused` : m.state) + (m.message ? `: ${m.message}` : "") + (m.empty ? `; nothing was recorded: ${m.empty}` : ""))],
    ["Progress", at ? h("span", {}, h("progress", { value: at[0], max: Math.max(1, at[1]), "aria-label": "progress" }), ` ${at[2]}`) : null],
    ["Jobs", m.jobs?.length > 0 ? jobsText(m.jobs, 20) : null],
    ["Window (UTC)", m.go ? `${utc(m.go)} to ${m.stop ? utc(m.stop) : "now"}` : null],
    ["Event types", m.event_set === "selected" ? m.select.event_type.join(", ") : m.event_set],
    ["Stored", `${count(m.events)} events, ${bytes(m.bytes)}`],
    ["Nothing is stored now", m.store_message ? h("span", { class: "bad" }, m.store_message) : null],
    ["Counted by agents", `${count(m.begun)} begun, ${count(Math.max(0, m.dropped - unwanted))} lost, ${unwanted > 0 ? `${count(unwanted)} not wanted, ` : ""}${count(m.held)} still held`],
    ["Profile", m.profile.state === "none" ? "made when it is opened" : said(m.profile)],
    ["Export", m.export ? said(m.export) : null],
  ];
  return h("dl", {}, ...rows.filter(([, v]) => v !== null).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

/** Texts for causes of dropped events that are no loss, because no user requested these events. */
const unwantedWords = { "recorder-window": "overwritten in the recorder, no loss", "not-recorded": "not selected, no loss" };

function nodeRow(n) {
  const lost = n.counters.dropped - n.counters.unwanted;
  const damaged = n.damaged_events > 0 || n.damaged_frames > 0
    ? `the journal is damaged: ${count(n.damaged_events)} stored events and ${count(n.damaged_frames)} frames cannot be read back` : "";
  const refused = n.refused_files > 0 ? `${count(n.refused_files)} files were refused, the last: ${n.refused_file}` : "";
  const foreign = n.foreign_batches > 0 ? `${count(n.foreign_batches)} batches claimed another node` : "";
  const held = n.recorder ? `holds ${bytes(n.recorder.bytes)} of the last ${dur(n.recorder.reach_ns)}` : "";
  const drops = n.counters.drops.map((d) => `${unwantedWords[d.cause] ?? d.cause}: ${count(d.count)}`).join(", ");
  return h("tr", {},
    h("th", { scope: "row", title: n.host_name ?? null }, n.instance_id + (n.simulated ? " (simulated)" : "")),
    td(n.state, tone(n.state)),
    td(count(n.events), "num"),
    td(percent(n.events, n.events + lost), "num", "stored, of stored and lost"),
    td(n.first_local_ns === undefined ? "–" : dur(n.last_local_ns - n.first_local_ns), "num", "first to last event"),
    td(count(lost), lost > 0 ? "num bad" : "num"),
    td(count(n.missing_batches), n.missing_batches > 0 ? "num bad" : "num"),
    td(n.clock.bound_ns < 0 ? "–" : `± ${dur(n.clock.bound_ns)}`, "num"),
    td([n.message, n.unread?.message, n.uncounted?.message, n.tally?.unselected?.message, damaged, refused, foreign, drops, held].filter(Boolean).join("; "), damaged ? "wrap bad" : "wrap"));
}

/** Returns true for nodes that are listed first, because the user should look at them. */
const needsAttention = (n) => tone(n.state) === "bad" || n.message !== undefined || n.counters.dropped > n.counters.unwanted || n.missing_batches > 0 ||
  n.damaged_events > 0 || n.damaged_frames > 0 || n.foreign_batches > 0 || n.unread?.message !== undefined || n.tally?.unselected !== undefined;

function nodes(m) {
  const listed = [...m.nodes].sort((a, b) => needsAttention(b) - needsAttention(a) || (a.instance_id < b.instance_id ? -1 : 1)).slice(0, shown.all ? m.nodes.length : LISTED);
  const button = h("button", { type: "button", onclick: () => { shown.all = !shown.all; shown.text = ""; write(m); } });
  return h("div", {}, h("h3", {}, "Nodes of the session ", h("span", { class: "quiet" }, count(m.nodes.length))),
    table("Nodes of the session", [["Node"], ["State"], ["Events", "num"], ["Coverage", "num"], ["Recorded", "num"], ["Dropped", "num"], ["Missing batches", "num"], ["Clock", "num"], ["Remarks"]], listed.map(nodeRow), "stack"),
    h("p", { class: "after" }, allNodesButton(button, m.nodes.length, shown.all)));
}

const triggers = (m) => m.triggers.length === 0 ? null : h("div", {}, h("h3", {}, "Triggers"),
  table("Triggers", [["Trigger"], ["From (UTC)"], ["To (UTC)"], ["Nodes", "num"], ["Reason"]], m.triggers.map((t) =>
    h("tr", {}, h("th", { scope: "row" }, t.id), td(t.from ? utc(t.from) : "–"), td(t.to ? utc(t.to) : "–"), td(count(t.answered), "num"),
      td(t.reason + (t.unacknowledged?.length > 0 ? `; not acknowledged by ${t.unacknowledged.join(", ")}` : ""), "wrap")))));

function artifacts(m) {
  const others = m.artifacts.filter((a) => !isDeviceProfile(a));
  return others.length === 0 ? null : h("div", {}, h("h3", {}, "Artifacts ", h("span", { class: "quiet" }, count(others.length))),
    table("Artifacts", [["Name"], ["Kind"], ["Node"], ["Size", "num"], ["Actions"]], others.map((a) =>
      h("tr", {}, h("th", { scope: "row", class: "wrap" }, a.name), td(a.kind), td(a.instance_id), td(bytes(a.size), "num"),
        h("td", {}, a.complete ? action("Download", () => download(`${session(m.id)}/artifacts/${a.sha256}`, a.name)) : "incomplete"))), "stack"));
}

function actions(m) {
  if (!may("control")) return null;
  const at = session(m.id), all = [
    isOpen(m.state) ? action("Stop", () => post(`${at}/stop`)) : null,
    m.state === "recording" ? (m.paused ? action("Resume", () => post(`${at}/resume`)) : action("Pause", () => post(`${at}/pause`))) : null,
    isOpen(m.state) && m.mode === "recorder" ? action("Trigger", () => post(`${at}/trigger`, triggerRequest())) : null,
    m.state === "complete" ? action("Merge again", () => post(`${at}/merge`)) : null].filter(Boolean);
  return all.length === 0 ? null : h("div", { class: "actions" }, ...all);
}

const key = (el) => el.getAttribute("aria-label") ?? el.textContent;

/** Rewrites the section if the session has changed. Keeps the focus and the scroll positions of tables. */
function write(m) {
  const text = JSON.stringify([m, Math.floor((progress(m)?.[0] ?? 0) / 5e8)]);
  if (text === shown.text) return;
  shown.text = text;
  const [head, tail] = shown.live, active = document.activeElement;
  const alike = (tag, text) => shown.live.flatMap((part) => [...part.querySelectorAll(tag)]).filter((el) => key(el) === text); // in document order
  const held = shown.live.some((part) => part.contains(active)) ? [active.matches(".scroll") ? ".scroll" : "button", key(active)] : null;
  const nth = held ? alike(...held).indexOf(active) : -1;
  const scrolled = new Map([...tail.querySelectorAll(".scroll")].map((el) => [key(el), [el.scrollLeft, el.scrollTop]]));
  put(shown.named, m.name ? `${m.name} ` : "");
  head.replaceChildren(...[facts(m), actions(m), systemProfile(m)].filter(Boolean));
  tail.replaceChildren(...[triggers(m), nodes(m), deviceProfiles(m), models(m), artifacts(m)].filter(Boolean));
  for (const el of tail.querySelectorAll(".scroll")) [el.scrollLeft, el.scrollTop] = scrolled.get(key(el)) ?? [0, 0];
  if (held) {
    const again = alike(...held)[nth] ?? alike(...held)[0] ?? $("detail");
    if (again.matches(".scroll")) again.tabIndex = 0; // only an element with tabIndex can get the focus; scrolls() removes it later if the box need not scroll
    again.focus({ preventScroll: true });
  }
  shown.picture.update(m.events);
  shown.words.update(m.events);
}

export const chosenId = () => shown?.id ?? null;

export function closeDetail() {
  if (shown === null) return;
  if (location.hash.startsWith(`#/sessions/${encodeURIComponent(shown.id)}`)) history.replaceState(null, "", "#/sessions");
  const id = shown.id, held = $("detail").contains(document.activeElement);
  shown = null;
  $("detail").hidden = true;
  $("detail").replaceChildren();
  if (held) sessionButton(id)?.focus();
}

export async function refreshDetail() {
  const mine = shown;
  if (!mine) return;
  const m = await get(session(mine.id));
  if (shown === mine) write(m);
}

export function openDetail(id) {
  const picture = overview(id), words = report(id);
  shown = { id, picture, words, named: h("span", { class: "quiet" }), live: [h("div"), h("div")], text: "", all: false };
  const box = $("detail");
  box.hidden = false;
  box.replaceChildren(h("h2", { id: "detail-title" }, `Session ${id} `, shown.named, h("button", { type: "button", onclick: closeDetail }, "Close")), shown.live[0], words.element, picture.element, shown.live[1]);
  box.focus({ preventScroll: true });
  const mine = shown;
  refreshDetail().catch((e) => say(e.message)).finally(() => { if (shown === mine) box.scrollIntoView({ block: "start" }); }); // only now, because the section was empty before
}
