// Calls the aggregator's HTTP API (docs/reference/http.md). Sends the user's token if the user has entered one.

const KEY = "meridian-token";

export const token = () => sessionStorage.getItem(KEY) ?? "";
export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** The last answer to GET api/v1/self: {role, may: [...]}. The page hides actions that the server would refuse. */
let caller = { role: "", may: [] };
export function setCaller(self) {
  caller = self;
}
export const may = (action) => caller.may.includes(action);
export const role = () => caller.role;

const headers = (more) => token() ? { Authorization: `Bearer ${token()}`, ...more } : { ...more };

async function problem(reply) {
  let text = `${reply.status} ${reply.statusText}`;
  try {
    text = (await reply.json()).detail ?? text;
  } catch { /* the reply is no problem document, so the message contains only the status */ }
  if (reply.status === 401) text = `${token() ? "the aggregator does not know this token" : "the aggregator requires a token"}: enter one at the top of the page`;
  return Object.assign(new Error(text), { status: reply.status });
}

export async function request(path, options = {}) {
  const reply = await fetch(path, { ...options, headers: headers(options.headers) }).catch((e) => {
    throw e.name === "AbortError" ? e : Object.assign(new Error("no answer from the aggregator"), { silent: true });
  });
  if (!reply.ok) throw await problem(reply);
  return reply;
}

export const get = async (path, signal) => (await request(path, { signal })).json();

export const post = async (path, body = {}) =>
  (await request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } })).json();

export const remove = (path) => request(path, { method: "DELETE" });

export const session = (id) => `api/v1/sessions/${encodeURIComponent(id)}`;

/** Streams a large file to disk. Needs a browser with a file picker, which works only with https or on this machine. */
async function toPicked(path, name) {
  const handle = await window.showSaveFilePicker({ suggestedName: name });
  const reply = await request(path);
  await reply.body.pipeTo(await handle.createWritable());
}

function click(href, name) {
  const a = document.createElement("a");
  a.href = href;
  a.download = name;
  document.body.append(a);
  a.click();
  a.remove();
}

/** Downloads a file. Without a token a link suffices. With a token the page fetches the file itself, because a link cannot send it. */
export async function download(path, name) {
  if (!token()) return click(path, name);
  if (window.showSaveFilePicker) {
    return toPicked(path, name).catch((e) => {
      if (e.name !== "AbortError") throw e; // AbortError means that the user closed the file picker
    });
  }
  const url = URL.createObjectURL(await (await request(path)).blob());
  click(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60000);
  return undefined;
}
