// Makes elements and formats texts. Data is always inserted as text, never as markup, so it cannot add elements to the page.

export const $ = (id) => document.getElementById(id);

/** h("td", {class: "num"}, "12", otherElement): attributes, on… listeners, children. */
export function h(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (value === true) el.setAttribute(key, "");
    else if (value !== false && value != null) el.setAttribute(key, value);
  }
  el.append(...children.filter((c) => c != null));
  return el;
}

/** Writes only what changed, so that selection, focus and screen readers are left alone. */
export function put(el, text, cls) {
  if (el.textContent !== text) el.textContent = text;
  if (cls !== undefined && el.className !== cls) el.className = cls;
}

export const td = (text, cls = "", title = null) => h("td", { class: cls, title }, text);

/** A time of the API, to the millisecond: "2026-11-24 09:00:00.123". */
export const utc = (iso) => iso.replace("T", " ").replace(/(\.\d{3})\d*Z$|Z$/, "$1");

/** How long ago the time of day of a time is enough to name it: a day. */
export const when = (iso) => Math.abs(Date.now() - Date.parse(iso)) < 86400000 ? iso.slice(11, 19) : iso.slice(0, 16).replace("T", " ");

/** A box that scrolls is reached with Tab, so that the keyboard can scroll it; one that has nothing to scroll is passed over. */
const boxes = new ResizeObserver((changes) => {
  for (const box of new Set(changes.map((c) => c.target.closest(".scroll")))) {
    if (box && (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight)) box.tabIndex = 0;
    else if (box && box !== document.activeElement) box.removeAttribute("tabindex");
  }
});

export function scrolls(box) {
  boxes.observe(box);
  boxes.observe(box.firstElementChild);
  return box;
}

/** name: what it lists. heads: [text, class]. A "stack" becomes a list of cards where the window is narrow. */
export function table(name, heads, rows, cls = "") {
  for (const row of rows) [...row.cells].forEach((cell, i) => { if (heads[i][0]) cell.dataset.label = heads[i][0]; });
  return scrolls(h("div", { class: "scroll", role: "group", "aria-label": name }, h("table", { class: cls },
    h("thead", {}, h("tr", {}, ...heads.map(([text, c]) => h("th", { scope: "col", class: c ?? "" }, text)))),
    h("tbody", {}, ...rows))));
}

/** Rows of a table of nodes until all are asked for. */
export const LISTED = 20;

/** Shows or hides the nodes behind the first LISTED; without a purpose where there are no more. */
export function allNodesButton(button, n, all) {
  button.hidden = n <= LISTED;
  button.setAttribute("aria-expanded", all);
  put(button, all ? `Show ${LISTED} nodes` : `Show all ${count(n)} nodes`);
  return button;
}

let fading = 0;

export function say(text, kind = "error") {
  const el = $("message");
  el.textContent = text;
  el.dataset.kind = kind;
  el.hidden = text === "";
  clearTimeout(fading);
  if (kind === "info" && text !== "") fading = setTimeout(() => { el.hidden = true; }, 8000); // messages about success disappear after 8 seconds
}

export const count = (n) => n.toLocaleString("en-US");

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i === 0 ? n : n.toFixed(1)} ${units[i]}`;
}

/** 1234 -> "1.23 µs" */
export function dur(ns) {
  const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  if (ns === 0) return "0 s";
  const [unit, size] = units.find(([, s]) => Math.abs(ns) >= s) ?? units[3];
  const v = ns / size;
  return `${Math.abs(v) >= 100 ? v.toFixed(0) : v.toFixed(2)} ${unit}`;
}

export const percent = (part, whole) => whole > 0 ? `${Math.floor((1000 * part) / whole) / 10} %` : "–";

const tones = {
  good: ["recording", "complete", "flushed", "armed", "done", "good", "written", "ended"],
  warn: ["asked", "arriving", "arming", "stopping", "merging", "waiting", "running", "unaligned", "settling", "gap", "wall clock"],
};
/** The class of a state's word; what is not known to be well looks bad only when it says so. */
export function tone(state) {
  if (tones.good.includes(state)) return "good";
  if (tones.warn.includes(state)) return "warn";
  return /fail|lost|missing|refus|suspect/.test(state) ? "bad" : "";
}
