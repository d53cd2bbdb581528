// The profiles of a session: the merged system profile, and the device profiles (instruction by instruction) if the session
// requested them.
import { bytes, count, h, say, table, td, tone } from "./dom.js";
import { download, get, session } from "./api.js";
import { action } from "./sessions.js";
import { openInPerfetto } from "./perfetto.js";

let formats = []; // the output formats of this aggregator
get("api/v1/formats").then((doc) => { formats = doc.formats.filter((f) => f.title); }).catch((e) => say(`Output formats: ${e.message}`));

const base = (name) => name.slice(name.lastIndexOf("/") + 1);
const trace = (a) => /^device_profile_.*\.pftrace$/.test(base(a.name)); // a trace that a vendor's viewer exported
const core = (n) => n === undefined || n < 0 ? null : n;

/** Returns true for artifacts that are listed in this section and not among the other artifacts. */
export const isDeviceProfile = (a) => a.kind === "NTFF" || trace(a);

/** Returns the button that opens part i of a profile that is split by time. */
function part(m, p, i) {
  const since = (p.begin_ns - m.profile_parts[0].begin_ns) / 1e9, last = (p.last_ns - m.profile_parts[0].begin_ns) / 1e9;
  const text = `Open part ${i + 1} of ${m.profile_parts.length} in Perfetto (${since.toFixed(1)} to ${last.toFixed(1)} s)`;
  return action(text, () => openInPerfetto(`${session(m.id)}/profile/${p.file}`, `${m.name || m.id}, part ${i + 1}`, p.file), { class: i === 0 ? "primary" : "" });
}

export function systemProfile(m) {
  const at = session(m.id);
  return h("div", {}, h("h3", {}, "System profile"), m.events === 0 ? h("p", { class: "quiet" }, "Nothing was recorded.") : h("div", { class: "actions" },
    ...(m.profile_parts?.length > 1 ? m.profile_parts.map((p, i) => part(m, p, i)) :
      [action("Open in Perfetto", () => openInPerfetto(`${at}/profile`, m.name || m.id, `${m.id}.pftrace`), { class: "primary" })]),
    ...formats.map((f) => action(`Download ${f.title}`, () => download(`${at}/profile?format=${f.name}`, m.id + f.suffix)))));
}

/** Returns one row per file that has arrived, and one per requested profile without a file, with its state. */
function rowsOf(m) {
  const rows = m.artifacts.filter(isDeviceProfile).map((file) => ({ node: file.instance_id, pid: file.process_id, core: core(file.nc_idx), file, state: file.complete ? "written" : "arriving" }));
  const processes = new Set(rows.map((r) => `${r.node} ${r.pid}`)), cores = new Set(rows.map((r) => `${r.node} ${r.pid} ${r.core}`));
  for (const n of m.nodes) {
    for (const p of n.device_profiles ?? []) {
      const row = { node: n.instance_id, pid: p.process_id, core: core(p.lnc_idx), state: p.state, message: p.message };
      const known = row.core === null ? processes.has(`${row.node} ${row.pid}`) : cores.has(`${row.node} ${row.pid} ${row.core}`);
      if (p.message || !known) rows.push(row);
    }
  }
  const key = (r) => [r.node, r.pid, r.core ?? -1, r.file?.name ?? ""];
  return rows.sort((a, b) => { const [x, y] = [key(a), key(b)]; const i = x.findIndex((v, k) => v !== y[k]); return i < 0 ? 0 : x[i] < y[i] ? -1 : 1; });
}

/** Returns the model (NEFF) of a device profile: the only model of its process, or the model whose hash is in the file's name. */
function modelOf(m, file) {
  const models = m.artifacts.filter((a) => a.kind === "NEFF" && a.instance_id === file.instance_id && a.process_id === file.process_id);
  const hash = (a) => base(a.name).replace(/^neff_|_vnc_\d+|\.neff$/g, "");
  return new Set(models.map((a) => a.sha256)).size === 1 ? models[0] : models.find((a) => hash(a).length >= 8 && base(file.name).includes(hash(a)));
}

function buttons(m, file) {
  const at = (a) => `${session(m.id)}/artifacts/${a.sha256}`;
  const model = file.kind === "NTFF" ? modelOf(m, file) : undefined;
  return h("div", { class: "actions" },
    trace(file) ? action("Open in Perfetto", () => openInPerfetto(at(file), `${m.name || m.id} ${base(file.name)}`, base(file.name)), { class: "primary" }) : null,
    action("Download", () => download(at(file), base(file.name)), { "aria-label": `Download ${base(file.name)}` }),
    model?.complete ? action("NEFF", () => download(at(model), base(model.name)), { title: `the model: ${base(model.name)}, ${bytes(model.size)}` }) : null);
}

function profileRow(m, r) {
  const what = r.file ? base(r.file.name) : r.core === null ? "the process as a whole" : "no file yet";
  return h("tr", {}, h("th", { scope: "row", class: "wrap" }, what), td(r.node), td(r.pid < 0 ? "–" : String(r.pid), "num"), td(r.core === null ? "–" : String(r.core), "num"),
    td(r.state + (r.message ? `: ${r.message}` : ""), `wrap ${tone(r.state)}`), td(r.file ? bytes(r.file.size) : "–", "num"), h("td", {}, r.file?.complete ? buttons(m, r.file) : null));
}

/** Returns the table of conversions: the vendor's viewer, run by the aggregator, converts the NTFF files of each process. */
function conversions(m) {
  const all = m.conversions ?? [];
  return all.length === 0 ? null : h("div", { id: "conversions" }, h("h4", {}, "In the viewer ", h("span", { class: "quiet" }, `${count(all.filter((v) => v.state === "done").length)} of ${count(all.length)} done`)),
    table("In the viewer", [["Node"], ["Process", "num"], ["State"], ["Files", "num"], ["Size", "num"], ["Seconds", "num"]], all.map((v) => h("tr", {}, h("th", { scope: "row", class: "wrap" }, v.instance_id), td(String(v.process_id), "num"),
      td(v.state + (v.message ? `: ${v.message}` : v.run ? `: run ${v.run}` : ""), `wrap ${tone(v.state)}`), td(count(v.files), "num"), td(bytes(v.bytes), "num"), td((v.took_ns / 1e9).toFixed(1), "num"))), "stack"));
}

/** Returns the section about device profiles, or null if the session has none and requested none. */
export function deviceProfiles(m) {
  const rows = rowsOf(m), files = rows.filter((r) => r.file).length;
  if (rows.length === 0 && !m.device_profiles) return null;
  const opaque = rows.some((r) => r.file?.kind === "NTFF");
  return h("div", { id: "device-profiles" }, h("h3", {}, "Device profiles ", h("span", { class: "quiet" }, `${count(files)}${m.device_profiles ? `, ${m.device_profiles}` : ""}`)),
    rows.length === 0 ? h("p", { class: "quiet" }, "Requested; no process has answered yet.")
      : table("Device profiles", [["File"], ["Node"], ["Process", "num"], ["Core", "num"], ["State"], ["Size", "num"], ["Actions"]], rows.map((r) => profileRow(m, r)), "stack"),
    conversions(m),
    opaque && !m.conversions ? h("p", { class: "quiet" }, "AWS's viewer opens an NTFF file together with the NEFF of its model. A device_profile_….pftrace that the viewer writes into a watched folder can be opened from this page.") : null);
}
