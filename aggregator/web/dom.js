// Makes elements and formats texts. Data is always inserted as text, never as markup, so it cannot add elements to the page.

export const $ = (id) => document.getElementById(id);

/** Makes an element with attributes, listeners (names with on…) and children: h("td", {class: "num"}, "12", otherElement). */
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

/** Sets text and class only if they differ, because a change would disturb the selection, the focus and screen readers. */
export function put(el, text, cls) {
  if (el.textContent !== text) el.textContent = text;
  if (cls !== undefined && el.className !== cls) el.className = cls;
}

export const td = (text, cls = "", title = null) => h("td", { class: cls, title }, text);

/** Formats a time of the API with milliseconds: "2026-11-24 09:00:00.123". */
export const utc = (iso) => iso.replace("T", " ").replace(/(\.\d{3})\d*Z$|Z$/, "$1");

/** Formats a time: only the time of day if it is less than a day away, otherwise date and time. */
export const when = (iso) => Math.abs(Date.now() - Date.parse(iso)) < 86400000 ? iso.slice(11, 19) : iso.slice(0, 16).replace("T", " ");

/** Makes a box reachable with Tab while its content is larger than the box, so that the keyboard can scroll it. */
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

/** Makes a table. name: label for screen readers. heads: [text, class] of each column. The class "stack" shows rows as cards in a narrow window. */
export function table(name, heads, rows, cls = "") {
  for (const row of rows) [...row.cells].forEach((cell, i) => { if (heads[i][0]) cell.dataset.label = heads[i][0]; });
  return scrolls(h("div", { class: "scroll", role: "group", "aria-label": name }, h("table", { class: cls },
    h("thead", {}, h("tr", {}, ...heads.map(([text, c]) => h("th", { scope: "col", class: c ?? "" }, text)))),
    h("tbody", {}, ...rows))));
}

/** Number of nodes that a table shows until the user requests all. */
export const LISTED = 20;

/** Updates the button that switches between the first LISTED nodes and all nodes. Hides it if there are no more nodes. */
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

/** Formats a duration in ns: 1234 becomes "1.23 µs". */
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
/** Returns the class for a state: good, warn, or bad. An unknown state is bad only if its name contains a word such as "fail". */
export function tone(state) {
  if (tones.good.includes(state)) return "good";
  if (tones.warn.includes(state)) return "warn";
  return /fail|lost|missing|refus|suspect/.test(state) ? "bad" : "";
}
