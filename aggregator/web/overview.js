// Draws on a canvas how busy each core was over time, and how late participants entered collectives. The aggregator computes
// the data (format overview-json). Each zoom requests it again. Needs no internet access.
import { count, dur, h, put, say, scrolls } from "./dom.js";
import { get, session } from "./api.js";

const LABEL = 190; // width in pixels of the labels, which are left of the map
const STRIP = 60; // height in pixels of the strip that shows lateness
const name = (c) => `${c.instance_id} · ${c.rank ?? c.process_id} · core ${c.lnc_idx}`;
const mean = (line) => line.length > 0 ? line.reduce((a, b) => a + b, 0) / line.length / 1000 : 0;
const share = (v) => `${(100 * v).toFixed(1)} %`;
const colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

function table(o) {
  const cell = (text, cls = "num") => h("td", { class: cls }, text);
  return scrolls(h("div", { class: "scroll", role: "group", "aria-label": "Cores" }, h("table", { id: "core-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Node · rank or process · core"),
      ...["Busy", "In collectives", "Came last", "Only it was missing"].map((t) => h("th", { scope: "col", class: "num" }, t)))),
    h("tbody", {}, ...o.cores.map((c) => h("tr", {}, h("th", { scope: "row" }, name(c)),
      cell(share(mean(c.busy))), cell(share(mean(c.collective))), cell(count(c.last_count)), cell(dur(c.late_ns))))))));
}

/** Draws the picture, with sizes in CSS pixels. Returns functions that give the bucket and the row at a position. */
function draw(canvas, o, from, layer, selection) {
  const rowHeight = Math.max(3, Math.min(18, Math.floor(480 / Math.max(1, o.cores.length))));
  const width = canvas.clientWidth, map = o.cores.length * rowHeight, height = map + STRIP + 26;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  const step = (width - LABEL) / Math.max(1, o.buckets);
  const x = (i) => LABEL + i * step;
  g.fillStyle = colour(layer === "busy" ? "--accent" : "--warn");
  o.cores.forEach((c, row) => c[layer].forEach((v, i) => {
    if (v === 0) return;
    g.globalAlpha = 0.08 + 0.92 * Math.min(1, v / 1000);
    g.fillRect(x(i), row * rowHeight, Math.max(1, step + 0.3), rowHeight - 1);
  }));
  g.globalAlpha = 1;
  g.fillStyle = colour("--text");
  if (rowHeight >= 11) o.cores.forEach((c, row) => g.fillText(name(c), 4, row * rowHeight + rowHeight / 2, LABEL - 8));
  const worst = Math.max(1, ...o.lateness.map((l) => l?.late_ns ?? 0));
  const base = map + 6 + STRIP;
  g.fillText(o.collectives > 0 ? `lateness, up to ${dur(worst)}` : "no collectives matched", 4, map + 6 + STRIP / 2, LABEL - 8);
  g.fillStyle = colour("--bad");
  o.lateness.forEach((l, i) => {
    if (l) g.fillRect(x(i), base - Math.max(1, (STRIP * l.late_ns) / worst), Math.max(1, step), Math.max(1, (STRIP * l.late_ns) / worst));
  });
  g.fillStyle = colour("--quiet");
  const parts = width - LABEL < 400 ? 2 : 4; // number of intervals between the time labels; few, so that labels do not overlap
  for (let k = 0; k <= parts; k++) {
    g.textAlign = k === 0 ? "left" : k === parts ? "right" : "center";
    g.fillText(`+${dur(from + (k * o.buckets * o.bucket_ns) / parts)}`, LABEL + (k * (width - 2 - LABEL)) / parts, base + 12);
  }
  if (selection) {
    g.strokeStyle = colour("--text");
    g.strokeRect(Math.min(...selection), 0.5, Math.abs(selection[1] - selection[0]), base - 1);
  }
  return { bucket: (px) => Math.max(0, Math.min(o.buckets - 1, Math.floor((px - LABEL) / step))), row: (py) => py < map ? Math.floor(py / rowHeight) : -1 };
}

class Overview {
  constructor(id) {
    this.id = id;
    this.whole = [0, 0]; // time range of the whole session, in ns since its start
    this.view = null; // the visible range [from, to] in ns since the start; null means the whole session
    this.start = null; // start of the whole session as a BigInt, in ns since 1970 (UTC)
    this.canvas = h("canvas", { class: "map", tabindex: "0", role: "img", "aria-label": "Busy time of cores over time; the table below has the numbers" });
    this.readout = h("p", { class: "readout quiet" });
    this.ramp = h("span", { class: "ramp", "data-layer": "busy" });
    this.layer = h("select", { onchange: () => { this.ramp.dataset.layer = this.layer.value; this.paint(); } }, h("option", { value: "busy" }, "busy"), h("option", { value: "collective" }, "in collectives"));
    this.body = h("div", { hidden: true });
    const button = (text, run) => h("button", { type: "button", onclick: run }, text);
    this.bar = h("div", { class: "bar", hidden: true }, h("label", {}, "Show ", this.layer), button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)),
      button("Earlier", () => this.move(-0.5)), button("Later", () => this.move(0.5)), button("Whole session", () => this.load(null)),
      h("span", { class: "key quiet" }, "0 %", this.ramp, "100 % of a bucket"));
    this.button = button("Draw overview", () => this.load(null));
    this.body.append(this.canvas, this.readout);
    this.numbers = h("div");
    this.element = h("div", { hidden: true }, h("h3", {}, "Overview ", this.button), this.bar, this.body, this.numbers);
    this.listen();
  }

  listen() {
    let from = null;
    const at = (ev) => ev.clientX - this.canvas.getBoundingClientRect().left;
    this.canvas.addEventListener("pointerdown", (ev) => { from = at(ev); this.canvas.setPointerCapture(ev.pointerId); });
    this.canvas.addEventListener("pointermove", (ev) => {
      if (from !== null) this.paint([from, at(ev)]);
      this.tell(at(ev), ev.clientY - this.canvas.getBoundingClientRect().top);
    });
    this.canvas.addEventListener("pointerup", (ev) => {
      const to = at(ev);
      if (from !== null && Math.abs(to - from) > 4) this.select(Math.min(from, to), Math.max(from, to));
      else this.paint();
      from = null;
    });
    this.canvas.addEventListener("dblclick", () => this.load(null));
    const keys = { "+": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), Home: () => this.load(null) };
    this.canvas.addEventListener("keydown", (ev) => { if (keys[ev.key]) { ev.preventDefault(); keys[ev.key](); } });
  }

  paint(selection) {
    if (this.data && this.canvas.isConnected) this.places = draw(this.canvas, this.data, this.from, this.layer.value, selection);
  }

  tell(px, py) {
    if (!this.places || this.data.buckets === 0) return;
    const i = this.places.bucket(px), row = this.places.row(py), o = this.data, late = o.lateness[i];
    const words = [`+${dur(this.from + i * o.bucket_ns)} for ${dur(o.bucket_ns)}`];
    if (o.cores[row]) words.push(`${name(o.cores[row])}: ${share(o.cores[row].busy[i] / 1000)} busy, ${share(o.cores[row].collective[i] / 1000)} in collectives`);
    if (late) words.push(`${count(late.count)} collectives, the last came up to ${dur(late.late_ns)} late: ${name(o.cores[late.core])}`);
    put(this.readout, words.join(" · "));
  }

  now() { return this.view ?? this.whole; }

  select(a, b) {
    const [i, k] = [this.places.bucket(a), this.places.bucket(b) + 1];
    this.load([this.from + i * this.data.bucket_ns, this.from + k * this.data.bucket_ns]);
  }

  zoom(factor) {
    const [a, b] = this.now(), middle = (a + b) / 2, half = ((b - a) * factor) / 2;
    this.load(half * 2 >= this.whole[1] ? null : [middle - half, middle + half]);
  }

  move(part) {
    const [a, b] = this.now(), by = (b - a) * part;
    this.load([a + by, b + by]);
  }

  async load(view) {
    const clamp = (v) => Math.round(Math.max(0, Math.min(this.whole[1], v)));
    let query = "";
    if (view) {
      view = view.map(clamp);
      if (view[1] - view[0] < 1000) return;
      query = `&start=${this.start + BigInt(view[0])}&end=${this.start + BigInt(view[1])}`;
    }
    this.button.setAttribute("aria-disabled", "true");
    try {
      const { overview } = await get(`${session(this.id)}/profile?format=overview-json${query}`);
      this.show(overview, view);
    } catch (e) {
      say(`Overview: ${e.message}`);
    }
    this.button.removeAttribute("aria-disabled");
  }

  show(o, view) {
    if (!view) {
      this.start = BigInt(o.start_ns);
      this.whole = [0, o.buckets * o.bucket_ns];
    }
    this.data = o;
    this.view = view;
    this.from = Number(BigInt(o.start_ns) - this.start);
    this.bar.hidden = this.body.hidden = o.buckets === 0 && !view;
    put(this.button, "Draw overview again");
    this.paint();
    put(this.readout, `${count(o.cores.length)} cores, ${count(o.collectives)} collectives matched, ${count(o.without_partner)} without a partner${o.left_out > 0 ? `, ${count(o.left_out)} left out (too many groups)` : ""}. Drag to zoom; keys + - ← → Home.`);
    this.numbers.replaceChildren(o.cores.length > 0 ? h("div", {}, table(o), h("p", { class: "quiet" }, "Busy: any span on the core, also calls of the host and waiting; the report divides this time. Came last: as in the report, by more than 100 ns.")) : h("p", { class: "quiet" }, "No core worked in this time."));
  }

  /** Hides the section while the session has no events. */
  update(events) { this.element.hidden = events === 0; }
}

let current = null;
addEventListener("resize", () => current?.paint());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => current?.paint());

export function overview(id) {
  current = new Overview(id);
  return current;
}
