// "Open in Perfetto": this page sends the trace to the Perfetto window with postMessage. Therefore Perfetto need not reach the
// aggregator, and does not get the user's token.
import { request } from "./api.js";

const ORIGIN = "https://ui.perfetto.dev";
const PATIENCE_MS = 60000;

/** Resolves when the Perfetto window has answered a PING with PONG, which means that it is ready for a trace. */
function ready(win) {
  return new Promise((resolve, reject) => {
    const started = Date.now();
    const stop = () => { clearInterval(timer); removeEventListener("message", received); };
    const received = (ev) => {
      if (ev.source !== win || ev.origin !== ORIGIN || ev.data !== "PONG") return;
      stop();
      resolve();
    };
    const timer = setInterval(() => {
      if (win.closed || Date.now() - started > PATIENCE_MS) {
        stop();
        reject(new Error(win.closed ? "the Perfetto window was closed" : "ui.perfetto.dev did not answer within a minute: download the profile instead"));
      } else {
        win.postMessage("PING", ORIGIN);
      }
    }, 100);
    addEventListener("message", received);
  });
}

/** Opens a trace in Perfetto. Must be called in the handler of a click, because browsers block other windows as pop-ups. */
export async function openInPerfetto(path, title, fileName) {
  const win = window.open(ORIGIN);
  if (!win) throw new Error("the browser did not open a window: allow pop-ups for this page");
  let buffer;
  try {
    buffer = await (await request(path)).arrayBuffer();
    if (buffer.byteLength === 0) throw new Error("the profile is empty: no event was recorded");
  } catch (e) {
    win.close();
    throw e;
  }
  await ready(win);
  win.postMessage({ perfetto: { buffer, title, fileName } }, ORIGIN);
}
