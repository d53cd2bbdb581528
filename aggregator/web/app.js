// The page: requests the state of nodes, sessions and hangs from the aggregator every two seconds, and shows it.
import { $, put, say, scrolls } from "./dom.js";
import { get, may, role, setCaller, setToken, token } from "./api.js";
import { openJob, refreshJob } from "./job.js";
import { jobControls, showJobs } from "./jobs.js";
import { showNodes } from "./nodes.js";
import { markChosen, sessionControls, showSessions } from "./sessions.js";
import { chosenId, closeDetail, openDetail, refreshDetail } from "./detail.js";

const PERIOD_MS = 2000;
let timer = 0;
let asking = false;
let answered = null; // time of the aggregator's last answer; null if there was none yet
let silent = false; // the page shows a message that the aggregator does not answer

async function ask() {
  setCaller(await get("api/v1/self"));
  document.body.dataset.role = role();
  const [nodes, { sessions }, jobs] = await Promise.all([may("cluster") ? get("api/v1/nodes") : null, get("api/v1/sessions"), get("api/v1/jobs")]);
  showJobs(jobs);
  for (const link of document.querySelectorAll("nav .of-cluster")) link.hidden = nodes === null;
  if (nodes !== null) showNodes(nodes.nodes);
  showSessions(sessions);
  if (chosenId() !== null && !sessions.some((s) => s.id === chosenId())) closeDetail(); // the chosen session was deleted
  markChosen(chosenId());
  await Promise.all([refreshDetail(), refreshJob(sessions)]);
}

/** Shows the state of the connection. After an error, old numbers are dimmed and a message says what the user can do. */
function connection(error) {
  if (!error) {
    answered = new Date();
    put($("connection"), "connected", "badge good");
    if (silent) say("");
  } else if (error.silent) {
    put($("connection"), "no answer", "badge bad");
    say(`No answer from the aggregator${answered ? ` since ${answered.toISOString().slice(11, 19)} UTC: the page shows the state of that time` : ": check that it runs and that this is its address"}. The page keeps trying.`);
  } else if (error.status === 401) {
    put($("connection"), token() ? "this token is not known" : "a token is needed", "badge warn");
  } else if (error.status === 403) {
    put($("connection"), "this token does not allow reading", "badge warn");
  } else {
    put($("connection"), error.message, "badge bad");
  }
  silent = Boolean(error?.silent);
  const refused = [401, 403].includes(error?.status);
  $("token-lead").hidden = !refused;
  $("token").setAttribute("aria-invalid", refused && token() !== "");
  document.querySelector("main").classList.toggle("stale", Boolean(error) && answered !== null);
}

async function tick() {
  clearTimeout(timer);
  if (asking) return;
  asking = true;
  await ask().then(() => connection(null), connection);
  asking = false;
  timer = setTimeout(tick, document.hidden ? 5 * PERIOD_MS : PERIOD_MS);
}

// ---- Pages: #/jobs, #/jobs/ID, #/sessions, #/sessions/ID, #/nodes, #/clocks ----

const TITLES = { jobs: "Jobs", job: "Job", sessions: "Sessions", nodes: "Nodes", clocks: "Clocks" };

function parts() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return []; // a damaged address leads to the list of jobs
  }
}

/** Shows the page that the address names. */
function route() {
  const [name, id = ""] = parts();
  const shown = name === "jobs" && id ? "job" : name in TITLES && name !== "job" ? name : "jobs";
  for (const section of document.querySelectorAll("main > [data-page]")) section.hidden = section.dataset.page !== shown;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${shown === "job" ? "jobs" : shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[shown]} – Meridian`;
  openJob(shown === "job" ? id : null);
  if (shown !== "sessions" || !id) closeDetail();
  else if (id !== chosenId()) openDetail(id);
  markChosen(chosenId());
  dispatchEvent(new Event("resize")); // what was hidden has its size now
  tick();
}

for (const box of document.querySelectorAll(".scroll")) scrolls(box);
$("token").value = token();
$("token-form").addEventListener("submit", (ev) => {
  ev.preventDefault();
  setToken($("token").value.trim());
  say("");
  tick();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
sessionControls(tick, (id) => { location.hash = `#/sessions/${encodeURIComponent(id)}`; });
jobControls();
addEventListener("hashchange", () => {
  route();
  const page = document.querySelector("main > [data-page]:not([hidden])");
  if (!page.contains(document.activeElement) && chosenId() === null) page.focus({ preventScroll: true });
});
$("skip").addEventListener("click", (ev) => {
  ev.preventDefault();
  document.querySelector("main > [data-page]:not([hidden])").focus();
});
route();
