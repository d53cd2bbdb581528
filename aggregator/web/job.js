// The page of one job: its verdicts with evidence, its ranks part by part, and its sessions.
import { $, LISTED, count, dur, h, put, say, table, td, when } from "./dom.js";
import { get, may, post, session } from "./api.js";
import { action, isOpen, triggerRequest } from "./sessions.js";
import { jobName, jobOwner, ranksText, sparkline, stateClass } from "./jobs.js";

const PARTS = ["host", "device", "runtime", "execution"];
const HEAT = [1.1, 1.25, 1.5, 2]; // own time as a multiple of the median of the ranks, from which on a cell is coloured
const COLUMN = 3; // pixels of a rank in the map, at least

let shown = null; // {id, all, opened, text, boxes}

const rankText = (c) => `rank ${c.rank ?? "?"} on ${c.instance_id} (pid ${c.process_id}${c.state ? `, ${c.state}` : ""}${c.inside ? `, in ${c.inside}` : ""})`;

function median(values) {
  const v = values.filter((x) => x !== undefined).sort((a, b) => a - b);
  return v.length === 0 ? undefined : v[Math.floor(v.length / 2)];
}

/** 0 to 4: how much longer than the median; short parts are not coloured, because a few microseconds mean nothing. */
function heat(own, of, step) {
  if (own === undefined || of === undefined || own - of < 0.02 * (step ?? 0) || own <= of) return 0;
  return HEAT.filter((f) => own >= f * of).length;
}

function stack(v, s) {
  const key = `${v.id} ${s.instance_id} ${s.process_id}`;
  const remember = (event) => event.target.open ? shown.opened.add(key) : shown.opened.delete(key);
  return h("details", { open: shown.opened.has(key), ontoggle: remember }, h("summary", {}, `Where rank ${s.rank ?? "?"} waits${s.culprit ? " (named)" : ""}`), h("pre", {}, s.text));
}

function hang(v) {
  return h("div", { class: "verdict", "data-hang": String(v.id) }, h("p", {}, h("strong", { class: "bad" }, `Stands still: ${v.verdict}`), ` since ${when(v.since)} UTC (± ${dur(v.since_bound_ns)}), for ${dur(v.lasts_ns)}: ${v.reason}.`),
    h("p", { class: "quiet" }, `${count(v.waiting)} of ${count(v.ranks)} ranks wait in call ${count(v.call)} of ${v.operation || "an operation"}. `, v.culprits.map(rankText).join("; ")), ...v.stacks.map((s) => stack(v, s)));
}

function slow(v) {
  const rows = v.culprits.map((c) => h("tr", {}, h("th", { scope: "row" }, c.rank ?? "?"), td(c.instance_id), td(String(c.process_id), "num"), td(c.part), td(dur(c.own_ns), "num bad"), td(dur(c.peers_ns), "num")));
  return h("div", { class: "verdict" }, h("p", {}, h("strong", { class: "warn" }, `Slow: ${v.verdict}`), ` since ${v.since_first_report ? "before " : ""}${when(v.since)} UTC (± ${dur(v.since_bound_ns)}): ${v.reason}.`),
    h("p", { class: "quiet" }, `Without the delay, a step of ${dur(v.step_ns)} would be ${dur(v.loss_ns)} shorter.`),
    table("Slow ranks", [["Rank"], ["Node"], ["Process", "num"], ["Part"], ["This rank", "num"], ["Its peers", "num"]], rows));
}

function facts(j) {
  const parts = PARTS.filter((p) => j.parts[`${p}_ns`] !== undefined).map((p) => `${p} ${dur(j.parts[`${p}_ns`])}`).join(", ");
  const rows = [
    ["State", h("span", { class: stateClass[j.state] }, j.state)],
    ["Owner", `${jobOwner(j)}${j.confirmed ? "" : " (as its processes say)"}`],
    ["Ranks", `${ranksText(j)}: ${Object.entries(j.ranks_by_state).map(([s, n]) => `${count(n)} ${s}`).join(", ")}`],
    ["Step now", j.step_ns === undefined ? "–" : dur(j.step_ns)],
    ["Step before", j.step_before_ns === undefined ? null : dur(j.step_before_ns)],
    ["Parts of a step", parts || null],
    ["Last step", j.last_step ? `${when(j.last_step)} UTC` : "none was reported"],
    ["Seen since", `${when(j.first_seen)} UTC`],
  ];
  return h("dl", {}, ...rows.filter(([, v]) => v !== null).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
}

/** What is longer than in the other ranks comes first. */
function worstFirst(list, medians) {
  const worst = (r) => Math.max(...PARTS.map((p) => heat(r.parts[`${p}_ns`], medians[p], r.step_ns)));
  return [...list].map((r, i) => [worst(r), i, r]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(([, , r]) => r);
}

function rankRow(r, medians, named) {
  const cell = (p) => {
    const own = r.parts[`${p}_ns`], level = heat(own, medians[p], r.step_ns);
    return td(own === undefined ? "–" : dur(own), `num heat${level}`, medians[p] === undefined ? null : `median of the ranks: ${dur(medians[p])}`);
  };
  return h("tr", { "data-rank": r.rank ?? "" }, h("th", { scope: "row" }, `${r.rank ?? "?"}${named.has(`${r.instance_id} ${r.process_id}`) ? " (named)" : ""}`), td(r.instance_id), td(String(r.process_id), "num"),
    td(r.state, ["stopped", "gone", "zombie"].includes(r.state) ? "bad" : ""), td(r.step_ns === undefined ? "–" : dur(r.step_ns), "num"), ...PARTS.map(cell));
}

/** All ranks side by side, a line for each part: one glance shows which rank differs. */
function paint(canvas, list, medians) {
  const width = Math.max(canvas.clientWidth, 1), ratio = window.devicePixelRatio || 1, row = 16, left = 76;
  const step = Math.max(width - left, 1) / Math.max(1, list.length);
  const css = getComputedStyle(document.documentElement);
  canvas.width = width * ratio;
  canvas.height = PARTS.length * row * ratio;
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  PARTS.forEach((p, y) => {
    g.fillStyle = css.getPropertyValue("--quiet");
    g.fillText(p, 0, y * row + row / 2);
    list.forEach((r, i) => {
      const own = r.parts[`${p}_ns`];
      g.fillStyle = css.getPropertyValue(own === undefined ? "--line" : `--heat${heat(own, medians[p], r.step_ns)}`);
      g.fillRect(left + i * step, y * row + 1, Math.max(step - (step > COLUMN ? 1 : 0), 1), row - 2);
    });
  });
}

function ranks(j) {
  const list = j.rank_list, medians = Object.fromEntries(PARTS.map((p) => [p, median(list.map((r) => r.parts[`${p}_ns`]))]));
  const named = new Set([...j.hang?.culprits ?? [], ...j.slow?.culprits ?? []].map((c) => `${c.instance_id} ${c.process_id}`));
  const some = worstFirst(list, medians).slice(0, shown.all ? list.length : LISTED);
  if (shown.all) some.sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
  const canvas = h("canvas", { class: "ranks", role: "img", "aria-label": "Parts of a step of each rank; the table below has the numbers" });
  const button = h("button", { type: "button", hidden: list.length <= LISTED, onclick: () => { shown.all = !shown.all; write(j, shown.sessions); } }, shown.all ? `Show ${LISTED} ranks` : `Show all ${count(list.length)} ranks`);
  shown.repaint = () => paint(canvas, list, medians);
  return h("div", {}, h("h3", {}, "Ranks ", h("span", { class: "quiet" }, count(list.length))), canvas,
    h("p", { class: "quiet" }, "Time in each step. A colour marks what takes at least 10 % longer than in the median rank, a stronger one what takes twice as long. ",
      "Host: outside of the runtime. Device: own work of the cores. Runtime: copies and loads. Execution: inside executions, waiting for other ranks included."),
    table("Ranks of the job", [["Rank"], ["Node"], ["Process", "num"], ["State"], ["Step", "num"], ...PARTS.map((p) => [p[0].toUpperCase() + p.slice(1), "num"])], some.map((r) => rankRow(r, medians, named))),
    h("p", { class: "after" }, button));
}

/** Sessions that recorded the job, the newest first. */
const sessionsOf = (j, sessions) => sessions.filter((s) => s.jobs.some((k) => k.job === j.job.job && (k.user ?? j.job.user) === j.job.user && (k.namespace ?? "") === (j.job.namespace ?? "")))
  .sort((a, b) => b.created_ns - a.created_ns);

function sessionList(list) {
  if (list.length === 0) return null;
  return h("div", {}, h("h3", {}, "Sessions of the job ", h("span", { class: "quiet" }, count(list.length))), h("ul", {}, ...list.slice(0, LISTED).map((s) =>
    h("li", {}, h("a", { href: `#/sessions/${encodeURIComponent(s.id)}` }, s.name || s.id), ` ${s.mode === "recorder" ? "flight recorder" : "session"}, ${s.state}, ${count(s.events)} events`))));
}

async function record(j) {
  const select = { job: [j.job.job], uid: [j.uid] };
  if (j.job.namespace) select.namespace = [j.job.namespace];
  const made = await post("api/v1/sessions", { name: `job ${j.job.job}`.slice(0, 255), duration: "30s", require: "any", select });
  say(`Session ${made.name} records the job for 30 s.`, "info");
  location.hash = `#/sessions/${encodeURIComponent(made.id)}`;
}

async function freeze(recorders) {
  for (const s of recorders) await post(`${session(s.id)}/trigger`, triggerRequest());
  say(`The flight recorders of the job keep the last ${triggerRequest().last}.`, "info");
}

function actions(j, sessions) {
  const recorders = sessions.filter((s) => s.mode === "recorder" && isOpen(s.state));
  const all = [may("start") && j.state !== "finished" && j.job.job ? action("Record 30 s", () => record(j)) : null,
    may("control") && recorders.length > 0 ? action("Freeze the flight recorders", () => freeze(recorders)) : null].filter(Boolean);
  return all.length === 0 ? null : h("div", { class: "actions" }, ...all);
}

function write(j, sessions) {
  const mine = sessionsOf(j, sessions), box = $("job-live");
  // ages alone do not change what is written
  const text = JSON.stringify([{ ...j, last_step_age_ns: 0, rank_list: j.rank_list.map((r) => ({ ...r, last_step_age_ns: 0, last_step: "", last_step_ns: 0 })) }, mine.map((s) => [s.id, s.state, s.events]), shown.all]);
  shown.sessions = sessions;
  if (text === shown.text) return;
  shown.text = text;
  const active = document.activeElement, held = box.contains(active) ? active.textContent : null;
  const scrolled = [...box.querySelectorAll(".scroll")].map((el) => [el.getAttribute("aria-label"), el.scrollLeft, el.scrollTop]);
  put($("job-title"), `Job ${jobName(j)}`);
  document.title = `Job ${jobName(j)} ${j.state} – Meridian`;
  box.replaceChildren(...[facts(j), actions(j, mine), j.hang ? hang(j.hang) : null, j.slow ? slow(j.slow) : null,
    h("div", {}, h("h3", {}, "Time of a step"), sparkline(j, 600, 60)), ranks(j), sessionList(mine)].filter(Boolean));
  for (const [label, x, y] of scrolled) for (const el of box.querySelectorAll(".scroll")) if (el.getAttribute("aria-label") === label) [el.scrollLeft, el.scrollTop] = [x, y];
  if (held !== null) ([...box.querySelectorAll("button, summary, a")].find((el) => el.textContent === held) ?? $("job-section")).focus({ preventScroll: true });
  shown.repaint();
}

export async function refreshJob(sessions) {
  const mine = shown;
  if (!mine) return;
  const j = await get(`api/v1/jobs/${encodeURIComponent(mine.id)}`).catch((e) => {
    if (e.status === 404) return null;
    throw e;
  });
  if (shown !== mine) return;
  $("job-gone").hidden = j !== null;
  if (j !== null) write(j, sessions);
}

/** Shows the job with this id; null: none. */
export function openJob(id) {
  if (shown?.id === id) return;
  shown = id === null ? null : { id, all: false, opened: new Set(), text: "", sessions: [], repaint: () => {} };
  $("job-gone").hidden = true;
  $("job-live").replaceChildren();
  put($("job-title"), "Job");
}

addEventListener("resize", () => shown?.repaint());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown?.repaint());
