// The table of sessions, and the actions for each session.
import { $, bytes, count, h, percent, put, say, tone } from "./dom.js";
import { download, may, post, remove, role, session } from "./api.js";
import { openInPerfetto } from "./perfetto.js";

const rows = new Map(); // id -> {tr, cells, buttons}
let latest = []; // the sessions in the aggregator's last answer
let changed = () => {}; // makes the page request the state again
let chosen = () => {}; // shows a session's details

/** Makes a button that calls `run` when it is clicked, not again before that call has ended. Shows errors. aria-disabled keeps the focus on the button. */
export function action(label, run, attributes = {}) {
  const button = h("button", { type: "button", ...attributes, onclick: async () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    say("");
    try {
      await run();
    } catch (e) {
      say(`${label}: ${e.message}`);
    }
    button.removeAttribute("aria-disabled");
    changed();
  } }, label);
  return button;
}

export const isOpen = (state) => ["arming", "recording"].includes(state);
const isOver = (state) => ["complete", "failed", "merging"].includes(state);

/** Returns the request that every trigger on this page sends, from the form next to "Trigger all flight recorders". */
export function triggerRequest() {
  const { last, reason } = $("trigger-form").elements;
  return { last: last.value.trim() || "20s", reason: reason.value.trim() || "web page" };
}

const jobText = (j) => [j.array_job && j.array_task ? `job ${j.array_job}_${j.array_task}` : j.job && `job ${j.job}`, j.job_name, j.user, j.partition, j.namespace,
  j.pod].filter(Boolean).join(", ");

/** Returns a text with the first `most` jobs and the number of further jobs. */
export const jobsText = (jobs, most) => jobs.slice(0, most).map(jobText).filter(Boolean).join("; ") + (jobs.length > most ? `; and ${count(jobs.length - most)} more` : "");

/** Returns true if the id, name, message, state or a job of the session contains the text of the field "Find". */
function isFound(s, letters) {
  return [s.id, s.name, s.message, s.state, ...s.jobs.flatMap((j) => [jobText(j), ...Object.entries(j).map(([k, v]) => `${k}=${v}`)])]
    .some((text) => text.toLowerCase().includes(letters));
}

function makeRow(s) {
  const at = session(s.id);
  const named = h("button", { type: "button", class: "link", onclick: () => chosen(s.id) });
  const buttons = {
    stop: action("Stop", () => post(`${at}/stop`)),
    trigger: action("Trigger", () => post(`${at}/trigger`, triggerRequest())),
    perfetto: action("Open in Perfetto", () => openInPerfetto(`${at}/profile`, s.name || s.id, `${s.id}.pftrace`)),
    download: action("Download", () => download(`${at}/profile`, `${s.id}.pftrace`)),
    delete: action("Delete", () => confirm(`Delete session ${s.name || s.id} and everything it recorded?`) && remove(at)),
  };
  const cells = Array.from({ length: 9 }, (_, i) => h(i === 0 ? "th" : "td", { class: i === 0 ? "wrap" : [4, 5, 6, 7].includes(i) ? "num" : "", scope: i === 0 ? "row" : null }));
  const heads = $("session-table").tHead.rows[0].cells;
  cells.slice(1, -1).forEach((cell, i) => { cell.dataset.label = heads[i + 1].textContent; });
  const job = h("div", { class: "quiet short" });
  cells[0].append(named, job);
  cells[8].append(h("div", { class: "actions" }, ...Object.values(buttons)));
  const [state, progress] = [h("span"), h("progress", { max: 1, hidden: true, "aria-label": "progress" })];
  cells[2].append(h("span", {}, state, progress));
  const row = { tr: h("tr", { "data-session": s.id }, ...cells), cells, buttons, named, job, state, progress };
  rows.set(s.id, row);
  return row;
}

function showSession(s) {
  const row = rows.get(s.id) ?? makeRow(s);
  const c = row.cells;
  put(row.named, s.name || s.id);
  row.named.title = s.name;
  put(row.job, [s.name && s.id, jobsText(s.jobs, 2)].filter(Boolean).join(" · "));
  row.job.title = row.job.textContent;
  put(c[1], s.mode);
  put(row.state, s.state, tone(s.state));
  row.progress.hidden = s.progress === undefined;
  if (s.progress !== undefined) row.progress.value = s.progress;
  c[2].title = s.message;
  put(c[3], s.created.replace("T", " ").replace(/(\.\d+)?Z$/, ""));
  put(c[4], s.nodes_without > 0 ? `${count(s.nodes - s.nodes_without)} of ${count(s.nodes)}` : count(s.nodes), s.nodes_without > 0 ? "num bad" : "num");
  c[4].title = s.nodes_without > 0 ? "others were lost, were missing or refused; the session's table says which and why" : "";
  put(c[5], count(s.events));
  put(c[6], percent(s.events, s.events + s.lost), s.lost > 0 ? "num bad" : "num");
  c[6].title = s.lost > 0 ? `${count(s.lost)} events were lost; the session's table says where and why` : "";
  put(c[7], bytes(s.store_bytes + s.artifact_bytes)); // the space that deleting the session frees
  row.buttons.stop.hidden = !(may("control") && isOpen(s.state));
  row.buttons.trigger.hidden = !(may("control") && isOpen(s.state) && s.mode === "recorder");
  row.buttons.perfetto.hidden = row.buttons.download.hidden = s.events === 0;
  row.buttons.delete.hidden = !(may("delete") && isOver(s.state));
  return row;
}

export const sessionButton = (id) => rows.get(id)?.named;

export function markChosen(id) {
  for (const [key, row] of rows) row.tr.setAttribute("aria-selected", key === id);
}

export function showSessions(list) {
  latest = list;
  const body = $("session-table").tBodies[0];
  const newest = [...list].sort((a, b) => b.created_ns - a.created_ns);
  newest.forEach((s, i) => {
    const { tr } = showSession(s);
    if (body.rows[i] !== tr) body.insertBefore(tr, body.rows[i] ?? null);
    tr.hidden = !isFound(s, $("session-filter").value.trim().toLowerCase());
  });
  const known = new Set(list.map((s) => s.id));
  for (const [id, row] of rows) if (!known.has(id)) { row.tr.remove(); rows.delete(id); }
  const found = list.filter((s) => !rows.get(s.id).tr.hidden).length;
  put($("sessions-count"), list.length === 0 ? "" : found < list.length ? `${count(found)} of ${count(list.length)}` : count(list.length));
  $("session-find").hidden = list.length === 0;
  $("sessions-empty").hidden = list.length > 0 || !may("start");
  $("session-table").hidden = list.length === 0;
  $("sessions-none").hidden = list.length > 0 || role() !== "owner";
  $("start-form").hidden = !may("start");
  $("trigger-form").hidden = !may("start") || !list.some((s) => s.mode === "recorder" && isOpen(s.state));
}

const words = (text) => text.split(",").map((w) => w.trim()).filter((w) => w !== "");

async function start(form) {
  const request = { mode: form.elements.mode.value, require: form.elements.require.value.trim() || "any" };
  if (form.elements.name.value.trim()) request.name = form.elements.name.value.trim();
  if (form.elements.duration.value.trim()) request.duration = form.elements.duration.value.trim();
  if (form.elements.profiles.value) request.device_profiles = form.elements.profiles.value;
  const models = words(form.elements.models.value), inspect = words(form.elements.inspect.value);
  if (models.length > 0) request.profile_models = models;
  if (inspect.length > 0) request.inspect = inspect;
  const made = await post("api/v1/sessions", request);
  say(`Session ${made.name || made.id} is ${made.state}.`, "info");
  chosen(made.id);
}

export function sessionControls(onChange, onChoose) {
  changed = onChange;
  chosen = onChoose;
  $("session-filter").addEventListener("input", () => showSessions(latest));
  $("start-form").addEventListener("submit", async (ev) => {
    ev.preventDefault();
    try {
      await start(ev.target);
    } catch (e) {
      say(`Start: ${e.message}`);
    }
    changed();
  });
  $("trigger-form").addEventListener("submit", async (ev) => {
    ev.preventDefault();
    try {
      const { trigger } = await post("api/v1/trigger", triggerRequest());
      say(`Trigger ${trigger} was sent to all flight recorders.`, "info");
    } catch (e) {
      say(`Trigger: ${e.message}`);
    }
    changed();
  });
}
