// The page: asks the aggregator every two seconds and shows what it said.
import { $, put, say } from "./dom.js";
import { get, setToken, token } from "./api.js";
import { showNodes } from "./nodes.js";
import { markChosen, sessionControls, showSessions } from "./sessions.js";
import { chosenId, closeDetail, openDetail, refreshDetail } from "./detail.js";

const PERIOD_MS = 2000;
let timer = 0;
let asking = false;

async function ask() {
  const [{ nodes }, { sessions }] = await Promise.all([get("api/v1/nodes"), get("api/v1/sessions")]);
  showNodes(nodes);
  showSessions(sessions);
  if (chosenId() !== null && !sessions.some((s) => s.id === chosenId())) closeDetail(); // it was deleted
  markChosen(chosenId());
  await refreshDetail();
}

function connection(error) {
  if (!error) put($("connection"), "connected", "badge good");
  else if (error.status === 401) put($("connection"), "a token is needed", "badge warn");
  else if (error.status === 403) put($("connection"), "this token may not read", "badge warn");
  else put($("connection"), error.status ? error.message : "no answer from the aggregator", "badge bad");
}

async function tick() {
  clearTimeout(timer);
  if (asking) return;
  asking = true;
  try {
    await ask();
    connection(null);
  } catch (e) {
    connection(e);
    if (!e.status && !(e instanceof TypeError)) say(e.message);
  }
  asking = false;
  timer = setTimeout(tick, document.hidden ? 5 * PERIOD_MS : PERIOD_MS);
}

$("token").value = token();
$("token-form").addEventListener("submit", (ev) => {
  ev.preventDefault();
  setToken($("token").value.trim());
  say("");
  tick();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
sessionControls(tick, (id) => { openDetail(id); markChosen(id); });
tick();
