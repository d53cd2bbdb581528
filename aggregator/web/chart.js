// A line chart over time with a logarithmic value axis, drawn on a canvas. Its legend shows the values under the pointer, or the
// newest values if there is no pointer. Values are positive numbers, or null for a gap. Times are seconds since 1970, ascending.
import { h, put } from "./dom.js";

const HEIGHT = 220, LEFT = 80, RIGHT = 12, TOP = 8, BOTTOM = 24; // CSS pixels; the labels of the axes are in the margins
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600]; // possible intervals in seconds between two marks of the time axis
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Returns the exponents [low, high] of the powers of ten between which all values lie; [0, 1] if there are no values. */
function decades(series) {
  const all = series.flatMap((s) => s.values).filter((v) => v !== null);
  if (all.length === 0) return [0, 1];
  const low = Math.floor(Math.log10(all.reduce((a, b) => Math.min(a, b))));
  const high = Math.ceil(Math.log10(all.reduce((a, b) => Math.max(a, b))));
  return [low, Math.max(high, low + 1)];
}

export class LineChart {
  /** format(value) returns a value as text with its unit. */
  constructor(parent, format) {
    this.format = format;
    this.times = [];
    this.series = [];
    this.at = null; // index of the time under the pointer; null if there is none
    this.canvas = h("canvas", { class: "chart" });
    this.legend = h("p", { class: "legend" });
    parent.replaceChildren(this.canvas, this.legend);
    this.canvas.addEventListener("pointermove", (ev) => this.point(ev.clientX - this.canvas.getBoundingClientRect().left));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
  }

  /** Sets the data. series: [{label, colour, values}], with one value for each time. The arrays are borrowed until the next call. */
  set(times, series) {
    this.times = times;
    if (series.map((s) => s.label).join() !== this.series.map((s) => s.label).join()) this.makeLegend(series);
    this.series = series;
    this.paint();
  }

  makeLegend(series) {
    this.when = h("span");
    this.values = series.map(() => h("b"));
    this.legend.replaceChildren(this.when, ...series.map((s, i) => {
      const swatch = h("i");
      swatch.style.background = s.colour;
      return h("span", {}, swatch, s.label, " ", this.values[i]);
    }));
  }

  x(seconds) {
    const first = this.times[0], span = Math.max(1, this.times.at(-1) - first);
    return LEFT + ((seconds - first) / span) * (this.canvas.clientWidth - LEFT - RIGHT);
  }

  point(px) {
    this.at = null;
    if (px !== null && this.times.length > 0) {
      const away = this.times.map((t) => Math.abs(this.x(t) - px));
      this.at = away.indexOf(away.reduce((a, b) => Math.min(a, b)));
    }
    this.paint();
  }

  paint() {
    if (!this.canvas.isConnected || this.times.length === 0) return;
    const width = this.canvas.clientWidth, ratio = window.devicePixelRatio || 1, [low, high] = decades(this.series);
    const y = (v) => HEIGHT - BOTTOM - ((Math.log10(v) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    this.canvas.width = width * ratio;
    this.canvas.height = HEIGHT * ratio;
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    this.axes(g, width, low, high, y);
    for (const s of this.series) this.line(g, s, y);
    const at = this.at ?? this.times.length - 1;
    put(this.when, clock(this.times[at]));
    this.series.forEach((s, i) => put(this.values[i], s.values[at] == null ? "–" : this.format(s.values[at])));
  }

  axes(g, width, low, high, y) {
    const mark = (x0, y0, x1, y1) => { g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke(); };
    g.strokeStyle = css("--line");
    g.fillStyle = css("--quiet");
    g.textBaseline = "middle";
    g.textAlign = "right";
    for (let d = low; d <= high; d++) {
      mark(LEFT, y(10 ** d), width - RIGHT, y(10 ** d));
      g.fillText(this.format(10 ** d), LEFT - 8, y(10 ** d));
    }
    const first = this.times[0], last = this.times.at(-1), room = (width - LEFT - RIGHT) / 70;
    const step = STEPS.find((s) => (last - first) / s <= room) ?? STEPS.at(-1);
    g.textAlign = "center";
    for (let t = Math.ceil(first / step) * step; t <= last; t += step) {
      mark(this.x(t), TOP, this.x(t), HEIGHT - BOTTOM);
      g.fillText(clock(t), Math.min(this.x(t), width - 28), HEIGHT - BOTTOM / 2);
    }
    if (this.at !== null) {
      g.strokeStyle = css("--text");
      mark(this.x(this.times[this.at]), TOP, this.x(this.times[this.at]), HEIGHT - BOTTOM);
    }
  }

  line(g, s, y) {
    let drawing = false; // false after a null, which interrupts the line
    g.strokeStyle = g.fillStyle = s.colour;
    g.lineWidth = 2;
    g.beginPath();
    s.values.forEach((v, i) => {
      if (v !== null) g[drawing ? "lineTo" : "moveTo"](this.x(this.times[i]), y(v));
      drawing = v !== null;
    });
    g.stroke();
    if (this.times.length < 60) s.values.forEach((v, i) => { if (v !== null) g.fillRect(this.x(this.times[i]) - 2, y(v) - 2, 4, 4); });
    g.lineWidth = 1;
  }
}
