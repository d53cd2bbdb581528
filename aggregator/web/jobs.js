// The list of jobs: those that stand still first, then slow, running and finished ones.
import { $, count, dur, h, put, when } from "./dom.js";

export const stateClass = { standing: "bad", slow: "warn", running: "good", finished: "quiet" };

/** What a job is called: its number, and its name if it has one. */
export const jobName = (j) => [j.job.array_job && j.job.array_task ? `${j.job.array_job}_${j.job.array_task}` : j.job.job ?? "?", j.job.job_name].filter(Boolean).join(" ");
export const jobOwner = (j) => j.job.user ?? j.job.namespace ?? `user ${j.uid}`;
export const jobLink = (j) => `#/jobs/${encodeURIComponent(j.id)}`;
export const ranksText = (j) => j.world !== undefined && j.world !== j.ranks ? `${count(j.ranks)} of ${count(j.world)}` : count(j.ranks);
const time = (ns) => ns === undefined ? "–" : dur(ns);

/** The verdict that explains the state, as one sentence, and since when. */
export function verdictText(j) {
  const v = j.state === "standing" ? j.hang : j.state === "slow" ? j.slow : null;
  return v ? `${v.verdict}: ${v.reason} (since ${when(v.since)} UTC)` : "";
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const el = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value);
  el.append(...children);
  return el;
}

/** Step times over the last minutes, from 0 up; a slot without a step is a gap. */
export function sparkline(j, width = 120, height = 24) {
  const s = j.series_ns, most = Math.max(1, ...s), step = width / Math.max(1, s.length - 1);
  const parts = [];
  s.forEach((v, i) => {
    if (v > 0) parts.push(`${i > 0 && s[i - 1] > 0 ? "L" : "M"}${(i * step).toFixed(1)} ${(height - 2 - ((height - 4) * v) / most).toFixed(1)}${i > 0 && s[i - 1] > 0 ? "" : "h.1"}`);
  });
  const minutes = Math.round((s.length * j.series_slot_ns) / 6e9) / 10;
  const known = s.filter((v) => v > 0);
  const said = known.length === 0 ? "no steps" : `steps of the last ${minutes} minutes: ${dur(Math.min(...known))} to ${dur(most)}`;
  return svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, svg("title", {}, said), svg("path", { d: parts.join("") }));
}

const rows = new Map(); // id -> {tr, cells, link, series}
let latest = [];

function makeRow(j) {
  const heads = $("job-table").tHead.rows[0].cells;
  const cells = Array.from({ length: 9 }, (_, i) => h(i === 0 ? "th" : "td", { class: [3, 4, 5, 7].includes(i) ? "num" : i === 8 ? "wrap" : "", scope: i === 0 ? "row" : null }));
  cells.slice(1).forEach((cell, i) => { cell.dataset.label = heads[i + 1].textContent; });
  const link = h("a", { href: jobLink(j) });
  cells[0].append(link);
  const row = { tr: h("tr", { "data-job": j.id }, ...cells), cells, link, series: "" };
  rows.set(j.id, row);
  return row;
}

function showJob(j) {
  const row = rows.get(j.id) ?? makeRow(j), c = row.cells;
  put(row.link, jobName(j));
  row.link.title = j.job_key;
  put(c[1], jobOwner(j));
  put(c[2], j.state, stateClass[j.state]);
  put(c[3], ranksText(j));
  c[3].title = Object.entries(j.ranks_by_state).map(([state, n]) => `${count(n)} ${state}`).join(", ");
  put(c[4], time(j.step_ns));
  put(c[5], time(j.step_before_ns));
  const series = j.series_ns.join();
  if (series !== row.series || c[6].firstChild === null) c[6].replaceChildren(sparkline(j));
  row.series = series;
  put(c[7], j.last_step_age_ns === undefined || j.state === "finished" ? "–" : `${dur(Math.round(j.last_step_age_ns / 1e8) * 1e8)} ago`);
  put(c[8], verdictText(j), `wrap ${j.state === "standing" ? "bad" : ""}`);
  return row;
}

const isFound = (j, letters) => [jobName(j), jobOwner(j), j.state, j.job_key, ...Object.entries(j.job).map(([k, v]) => `${k}=${v}`)].some((text) => text.toLowerCase().includes(letters));

export function showJobs({ jobs, left_out, unnamed }) {
  latest = { jobs, left_out, unnamed };
  const body = $("job-table").tBodies[0];
  jobs.forEach((j, i) => {
    const { tr } = showJob(j);
    if (body.rows[i] !== tr) body.insertBefore(tr, body.rows[i] ?? null);
    tr.hidden = !isFound(j, $("job-filter").value.trim().toLowerCase());
  });
  const known = new Set(jobs.map((j) => j.id));
  for (const [id, row] of rows) if (!known.has(id)) { row.tr.remove(); rows.delete(id); }
  const of = (state) => jobs.filter((j) => j.state === state).length;
  put($("jobs-count"), jobs.length === 0 ? "" : [`${count(jobs.length)}`, of("standing") > 0 && `${of("standing")} standing`, of("slow") > 0 && `${of("slow")} slow`].filter(Boolean).join(", "));
  $("job-table").hidden = $("job-find").hidden = jobs.length === 0;
  $("jobs-empty").hidden = jobs.length > 0;
  $("jobs-left-out").hidden = left_out === 0 && unnamed === 0;
  put($("jobs-left-out"), [left_out > 0 && `${count(left_out)} more jobs are not listed.`,
    unnamed > 0 && `${count(unnamed)} processes are not watched, because they name no job: set MERIDIAN_JOB to the same name in all ranks of a job.`].filter(Boolean).join(" "));
}

export function jobControls() {
  $("job-filter").addEventListener("input", () => { if (latest.jobs) showJobs(latest); });
}
