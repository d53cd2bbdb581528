// The table of nodes, and the chart of their clock bounds (largest possible clock errors). The chart starts when the page is opened.
import { LineChart } from "./chart.js";
import { $, LISTED, allNodesButton, bytes, count, dur, h, put, tone, when } from "./dom.js";

const HISTORY = 1800; // maximum number of points per node: one hour, with a point every two seconds
const DRAWN = 12; // maximum number of lines; if there are more nodes, the nodes with the largest bounds are drawn
const COLOURS = ["#3b82f6", "#e8590c", "#2f9e44", "#be4bdb", "#f08c00", "#1098ad", "#e64980", "#74b816", "#7048e8", "#0ca678", "#d6336c", "#868e96"];

const rows = new Map(); // instance_id -> {tr, cells, begun, at, rate}: the node's row, its last count of events and the time of this count
const times = []; // times of the points in seconds since 1970
const bounds = new Map(); // instance_id -> array with a bound in ns, or null, for each element of `times`
const colours = new Map(); // instance_id -> colour, while its line is drawn
let chart = null;
let all = false; // true if the table lists every node

const losses = (node) => node.counters.dropped - node.counters.unwanted;
/** Returns true for nodes that are listed first, because an operator should look at them. */
const needsAttention = (node) => !node.connected || losses(node) > 0 || tone(node.clock.state) === "bad";

function makeRow(id) {
  const cells = Array.from({ length: 10 }, (_, i) => h(i === 0 ? "th" : "td", { class: i === 1 ? "host" : [3, 4, 5, 6, 8, 9].includes(i) ? "num" : "", scope: i === 0 ? "row" : null }));
  const row = { tr: h("tr", { "data-node": id }, ...cells), cells, begun: null, at: 0, rate: null };
  rows.set(id, row);
  return row;
}

// Returns the events per second that the node's processes made, whether recorded or not. Count and time come from the agent.
function rate(row, node) {
  const seconds = (node.counted_local_ns - row.at) / 1e9;
  if (seconds === 0) return row.rate;
  const known = row.begun !== null && seconds > 0 && node.counters.begun >= row.begun;
  row.rate = known ? (node.counters.begun - row.begun) / seconds : null;
  row.begun = node.counters.begun;
  row.at = node.counted_local_ns;
  return row.rate;
}

const clockWords = {
  settling: "too few probes yet; ",
  extrapolated: "the last probe is more than 5 s old, as is usual without a session; the bound grows until the next one; ",
  suspect: "the probes contradict each other; ",
  gap: "the clock jumped; ",
  unaligned: "no probe was answered; ",
};

function showNode(node) {
  const row = rows.get(node.instance_id) ?? makeRow(node.instance_id);
  const c = row.cells;
  const perSecond = node.connected ? rate(row, node) : null;
  put(c[0], node.instance_id + (node.simulated ? " (simulated)" : ""));
  put(c[1], node.host_name);
  c[1].title = node.host_name;
  put(c[2], node.connected ? node.state : `${node.state} since ${node.seen ? `${when(node.seen)} UTC` : "?"}`, node.connected ? "good" : "bad");
  c[2].title = node.connected ? "" : `last seen ${node.seen ?? "never"}${node.reported ? "" : ", before the aggregator was started again"}`;
  put(c[3], perSecond === null ? "–" : count(Math.round(perSecond)));
  put(c[4], count(node.events));
  put(c[5], count(losses(node)), losses(node) > 0 ? "num bad" : "num");
  c[5].title = node.counters.drops.map((d) => `${d.cause}: ${count(d.count)}`).join("\n");
  put(c[6], count(node.counters.held));
  c[6].title = `spool ${bytes(node.spool_bytes)}, memory ${bytes(node.memory_bytes)}`;
  put(c[7], node.connected ? node.clock.state : "–", node.connected ? tone(node.clock.state) : "");
  c[7].title = `${clockWords[node.clock.state] ?? ""}${node.clock.method}, ${count(node.clock.probes)} probes`;
  put(c[8], !node.connected || node.clock.bound_ns < 0 ? "–" : `± ${dur(node.clock.bound_ns)}`);
  put(c[9], count(node.processes));
  return row;
}

function remember(nodes, now) {
  times.push(now / 1000);
  for (const node of nodes) {
    if (!bounds.has(node.instance_id)) bounds.set(node.instance_id, new Array(times.length - 1).fill(null));
  }
  const latest = new Map(nodes.filter((n) => n.connected).map((n) => [n.instance_id, n.clock.bound_ns]));
  for (const [id, values] of bounds) values.push(latest.get(id) > 0 ? latest.get(id) : null);
  if (times.length > HISTORY) {
    times.shift();
    for (const values of bounds.values()) values.shift();
  }
}

const last = (values) => values.findLast((v) => v !== null) ?? -1;

function worst() {
  return [...bounds].filter(([, v]) => last(v) >= 0).sort((a, b) => last(b[1]) - last(a[1])).slice(0, DRAWN).map(([id]) => id).sort();
}

function drawChart() {
  const ids = worst();
  put($("clock-title"), `Clock bound over time (UTC)${bounds.size > DRAWN ? `, the ${DRAWN} widest of ${count(bounds.size)}` : ""}`);
  $("clock-empty").hidden = ids.length > 0 || $("clock-title").hidden;
  if (ids.length === 0) return;
  chart ??= new LineChart($("clock-chart"), (ns) => `± ${dur(ns)}`);
  for (const id of [...colours.keys()]) if (!ids.includes(id)) colours.delete(id);
  for (const id of ids) if (!colours.has(id)) colours.set(id, COLOURS.find((c) => ![...colours.values()].includes(c)));
  chart.set(times, ids.map((id) => ({ label: id, colour: colours.get(id), values: bounds.get(id) })));
}

/** Returns a summary such as "194 of 200 connected, 6 with losses, 1 clock suspect". */
function headline(nodes) {
  const losing = nodes.filter((n) => losses(n) > 0).length, suspect = nodes.filter((n) => tone(n.clock.state) === "bad").length;
  return [`${nodes.filter((n) => n.connected).length} of ${nodes.length} connected`, losing > 0 && `${losing} with losses`,
    suspect > 0 && `${suspect} ${suspect === 1 ? "clock" : "clocks"} suspect`].filter(Boolean).join(", ");
}

/** Shows the first LISTED nodes, of which those that need attention come first, or all nodes if the user requested them. */
function limit(nodes) {
  nodes.forEach((node, i) => { rows.get(node.instance_id).tr.hidden = !all && i >= LISTED; });
  allNodesButton($("nodes-all"), nodes.length, all);
}

export function showNodes(nodes) {
  const now = Date.now();
  nodes.sort((a, b) => needsAttention(b) - needsAttention(a) || (a.instance_id < b.instance_id ? -1 : 1));
  nodes.forEach((node, i) => {
    const { tr } = showNode(node);
    const body = $("nodes").tBodies[0];
    if (body.rows[i] !== tr) body.insertBefore(tr, body.rows[i] ?? null);
  });
  const known = new Set(nodes.map((n) => n.instance_id));
  for (const [id, row] of rows) if (!known.has(id)) { row.tr.remove(); rows.delete(id); }
  put($("nodes-count"), nodes.length > 0 ? headline(nodes) : "");
  limit(nodes);
  $("nodes-all").onclick = () => { all = !all; limit(nodes); };
  $("nodes-empty").hidden = nodes.length > 0;
  $("nodes").hidden = $("clock-title").hidden = nodes.length === 0;
  remember(nodes, now);
  drawChart();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart?.paint());
addEventListener("resize", () => chart?.paint());
