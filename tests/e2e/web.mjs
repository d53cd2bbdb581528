// Drives the web page: environment MODULES, CHROMIUM, PAGE, TOKEN, READ_TOKEN, OWNER_TOKEN (of one session), SHOTS (folder of screenshots),
// WATCHED (capture directory of sim-a), DEVICE_PROFILE (a trace that a viewer might write there).
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";
import { drawn } from "./wait.mjs";

const { chromium } = createRequire(path.join(process.env.MODULES, "x.js"))("playwright-core");
const { PAGE, TOKEN, READ_TOKEN, OWNER_TOKEN, SHOTS, WATCHED, DEVICE_PROFILE } = process.env;
const failures = [];
const check = (ok, what) => {
  if (!ok) { failures.push(what); console.log("FAILED", what); }
};

fs.mkdirSync(SHOTS, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
}).catch((e) => { console.log(`chromium does not start here: ${e.message.split("\n")[0]}`); process.exit(77); });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
context.setDefaultTimeout(60000); // for a machine that does much else
const foreign = [];
// The real Perfetto is not on this machine: a page in its place answers as it does.
await context.route((url) => !url.href.startsWith(PAGE), (route) => {
  foreign.push(route.request().url());
  if (!route.request().url().startsWith("https://ui.perfetto.dev/")) return route.abort();
  return route.fulfill({ contentType: "text/html", body: `<script>addEventListener("message", (ev) => {
    if (ev.data === "PING") ev.source.postMessage("PONG", "*");
    else if (ev.data.perfetto) document.title = ev.data.perfetto.title + " " + ev.data.perfetto.fileName + " " + ev.data.perfetto.buffer.byteLength;
  });</script>` });
});
const page = await context.newPage();
const complaints = [];
page.on("console", (m) => { if (["error", "warning"].includes(m.type()) && !/401|403|ERR_CONNECTION_REFUSED/.test(m.text())) complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));
await page.addInitScript(() => addEventListener("securitypolicyviolation", (ev) => console.error(`CSP ${ev.violatedDirective} ${ev.blockedURI}`)));
page.on("dialog", (d) => d.accept());
// Every text against what is behind it, in both schemes.
async function readable(where) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const poor = await page.evaluate(() => {
      const rgb = (c) => c.match(/[\d.]+/g).map(Number);
      const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
      const behind = (el) => { for (; el; el = el.parentElement) { const c = rgb(getComputedStyle(el).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
      return [...document.querySelectorAll("h1,h2,h3,p,th,td,dt,dd,button,label,a,span")].filter((el) => el.checkVisibility() && el.textContent.trim() && !el.closest(".skip, .uplot")).map((el) => {
        const [a, b] = [light(rgb(getComputedStyle(el).color)), light(behind(el))];
        return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), el.tagName + ": " + el.textContent.trim().slice(0, 40)];
      }).filter(([ratio]) => ratio < 4.5);
    });
    check(poor.length === 0, `${where}: contrast below 4.5 in the ${colorScheme} scheme: ${JSON.stringify(poor.slice(0, 5))}`);
  }
}
const shot = (name) => page.screenshot({ path: path.join(SHOTS, name), fullPage: true });

try {
  // ---- A token is asked for, and kept for this tab only ----
  await page.goto(`${PAGE}#/sessions`);
  await page.waitForFunction(() => /token is needed/.test(document.getElementById("connection").textContent));
  check(await page.locator("#token-lead").isVisible(), "what to do without a token is said");
  await shot("token-light.png");
  await page.emulateMedia({ colorScheme: "dark" });
  await shot("token-dark.png");
  await readable("asking for a token");
  await page.emulateMedia({ colorScheme: "light" });
  await page.fill("#token", "a token that nobody knows");
  await page.press("#token", "Enter");
  await page.waitForFunction(() => /not known/.test(document.getElementById("connection").textContent));
  check(await page.getAttribute("#token", "aria-invalid") === "true", "a wrong token is marked");
  check(await page.locator("#start-form").isHidden(), "without a known token nothing can be started");
  const refusal = await page.evaluate(() => import("/web/api.js").then((api) => api.post("api/v1/sessions")).catch((e) => e.message));
  check(/does not know this token: enter one at the top/.test(refusal), `what to do about a token that is not known: ${refusal}`);
  await page.fill("#token", READ_TOKEN);
  await page.press("#token", "Enter");
  await page.waitForSelector('#nodes tr[data-node="sim-b"]', { state: "attached" });
  await page.waitForFunction(() => document.getElementById("start-form").hidden && document.getElementById("trigger-form").hidden);
  check(await page.locator("nav a", { hasText: "Nodes" }).isVisible(), "a reader sees the nodes");
  await page.waitForFunction(() => document.querySelectorAll("#session-table tr[data-session]").length === 2); // a reader sees all sessions
  const nodes = (id) => page.locator(`#session-table tr[data-session="${id}"] td`).nth(3).evaluate((td) => `${td.textContent} ${td.className}`);
  check(await nodes("20260101-000000-0002") === "1 of 2 num bad", `a session without one of its nodes says so: ${await nodes("20260101-000000-0002")}`);
  check(await page.getByRole("button", { name: "Delete" }).count() === 0, "and may delete none");

  // ---- The owner of a job: its session, what may be done with it, and nothing else ----
  await page.fill("#token", OWNER_TOKEN);
  await page.press("#token", "Enter");
  await page.waitForFunction(() => document.body.dataset.role === "owner" && document.querySelectorAll("#session-table tr[data-session]").length === 1);
  check(await page.locator("nav a", { hasText: "Nodes" }).isHidden() && await page.locator("#start-form").isHidden(), "no nodes, no start");
  check(/job 4711/.test(await page.locator("#session-table tbody").textContent()), "its own session");
  check(JSON.stringify(await page.locator("#session-table .actions button:visible").allTextContents()) === '["Delete"]', "what it may do");
  await page.locator("#session-table button.link").click();
  await page.waitForFunction(() => /^complete/.test(document.querySelector("#detail dd")?.textContent));
  check(await page.locator("#detail").getByRole("button", { name: "Merge again" }).count() === 0, "no control in the details");
  await readable("an owner's page");
  await page.emulateMedia({ colorScheme: "light" });
  await shot("owner-light.png");
  await page.locator("#session-table").getByRole("button", { name: "Delete" }).click();
  await page.waitForFunction(() => /not known/.test(document.getElementById("connection").textContent)); // it had no other
  await page.fill("#token", TOKEN);
  await page.press("#token", "Enter");
  await page.waitForFunction(() => !document.getElementById("start-form").hidden);
  check(await page.evaluate((t) => sessionStorage.getItem("meridian-token") === t && localStorage.length === 0, TOKEN), "the token is kept in sessionStorage only");

  // ---- Start with the keyboard alone ----
  await page.focus('#start-form input[name="name"]');
  await page.keyboard.type("from the page");
  await page.keyboard.press("Tab"); // mode
  await page.keyboard.press("Tab"); // duration
  await page.keyboard.press("Tab"); // nodes needed
  await page.keyboard.press("Tab"); // Start
  await page.keyboard.press("Enter");
  const row = page.locator("#session-table tr[data-session]", { hasText: "from the page" });
  await row.waitFor();
  await page.waitForFunction(() => /recording/.test(document.querySelector("#session-table tbody").textContent));
  await page.waitForFunction(() => Number(document.querySelector("#session-table tbody tr").cells[5].textContent.replaceAll(",", "")) > 500, null, { timeout: 60000 });
  check(await page.locator("#detail").isVisible(), "the new session's details are open");
  check(/sim-a \(simulated\)/.test(await page.locator("#nodes").textContent()), "simulated nodes say so");
  const details = await page.evaluate(() => location.hash);
  check(/^#\/sessions\/\d{8}-/.test(details), `the details have an address: ${details}`);
  await page.evaluate(() => { location.hash = "#/clocks"; });
  await page.waitForFunction(() => /± \d/.test(document.querySelector("#clock-chart .legend")?.textContent), null, { timeout: 60000 });
  // Of a copy: Chromium complains of a canvas that is read more than once.
  await page.evaluate(() => { window.pixels = (c) => {
    const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(c, 0, 0);
    return copy.getImageData(0, 0, c.width, c.height).data;
  }; });
  await drawn(page);
  const chart = await page.evaluate(() => {
    const c = document.querySelector("canvas.chart"), d = window.pixels(c);
    let blue = 0; // the first line's colour, #3b82f6
    for (let i = 0; i < d.length; i += 4) blue += d[i] === 0x3b && d[i + 1] === 0x82 && d[i + 2] === 0xf6;
    return { blue, entries: document.querySelectorAll("#clock-chart .legend b").length };
  });
  check(chart.blue > 10 && chart.entries === 2, `the clock bounds of both nodes are drawn: ${JSON.stringify(chart)}`);
  await shot("clocks-light.png");
  await page.evaluate(() => { location.hash = "#/nodes"; });
  await page.waitForFunction(() => [...document.querySelectorAll("#nodes tbody tr")].every((tr) => /\d/.test(tr.cells[3].textContent)));
  await shot("nodes-light.png");
  await readable("nodes");
  await page.emulateMedia({ colorScheme: "light" });
  await page.evaluate((hash) => { location.hash = hash; }, details);
  await page.waitForFunction(() => /recording/.test(document.querySelector("#detail dd")?.textContent));
  await shot("recording-light.png");

  // ---- Pause and resume ----
  await page.locator("#detail").getByRole("button", { name: "Pause" }).click();
  await page.waitForFunction(() => document.querySelector("#detail dd").textContent === "recording, paused");
  await page.locator("#detail").getByRole("button", { name: "Resume" }).click();
  await page.waitForFunction(() => document.querySelector("#detail dd").textContent === "recording");
  check(/^Session \S+ from the page /.test(await page.locator("#detail-title").textContent()), `the details say the name: ${await page.locator("#detail-title").textContent()}`);

  // ---- Stop, and what is over can be drawn, downloaded and opened ----
  await page.locator("#detail").getByRole("button", { name: "Stop" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /^complete/.test(document.querySelector("#detail dd").textContent), null, { timeout: 60000 });
  check(await page.evaluate(() => document.getElementById("detail").contains(document.activeElement)), "the focus is not lost");
  await page.waitForFunction(() => /complete/.test(document.querySelector("#session-table tbody").textContent), null, { timeout: 60000 });
  await page.locator("#detail").getByRole("button", { name: "Draw overview", exact: true }).click();
  await page.waitForSelector("#core-table tbody tr");
  check(await page.locator("#core-table tbody tr").count() === 8, "a row per core");
  check(/Busy: any span on the core, also calls of the host/.test(await page.locator("#detail").textContent()), "what the overview counts is said");
  const said = () => page.locator(".readout").textContent();
  check(/8 cores, [1-9][\d,]* collectives matched/.test(await said()), `collectives were matched: ${await said()}`);
  const painted = () => page.evaluate(() => {
    const c = document.querySelector("canvas.map");
    const d = window.pixels(c);
    return d.filter((v, i) => i % 4 === 3 && v > 0).length / (c.width * c.height);
  });
  const part = await painted();
  check(part > 0.2, `the heat map is painted: ${part} of it`);
  await shot("overview-light.png");
  await page.locator("#detail").getByRole("button", { name: "Show text", exact: true }).click();
  await page.waitForFunction(() => /^Report .* of 8 workers/.test(document.querySelector("pre.report").textContent));
  check(/Verdict /.test(await page.locator("pre.report").textContent()), "the report is shown");
  await page.locator("#detail").getByRole("button", { name: "Show pictures", exact: true }).click();
  await page.waitForFunction(() => document.querySelector(".pictures")?.shadowRoot.querySelectorAll("svg.bar rect").length > 8);
  const bar = page.locator(".pictures svg.bar rect").first();
  check(await bar.evaluate((el) => getComputedStyle(el).fill) !== "rgb(0, 0, 0)", "the report's bars have their colours");
  const drawnReport = await page.evaluate(() => {
    const root = document.querySelector(".pictures").shadowRoot, text = [...root.querySelectorAll("td, th")].map((el) => el.textContent);
    return { heads: root.querySelectorAll("h1").length, most: text.includes("most in flight"), host: text.some((t) => /^sim-[ab] \/ host/.test(t)), hostOnly: text.some((t) => /^host/.test(t)),
      shade: getComputedStyle(root.querySelector(".scroll")).backgroundImage !== "none" };
  });
  check(JSON.stringify(drawnReport) === '{"heads":0,"most":true,"host":true,"hostOnly":false,"shade":true}', `the report with pictures: ${JSON.stringify(drawnReport)}`);
  await page.locator(".pictures").scrollIntoViewIfNeeded();
  await shot("report-pictures.png");
  await page.locator("pre.report").scrollIntoViewIfNeeded();
  await shot("report-light.png");
  await page.locator("canvas.map").scrollIntoViewIfNeeded();
  const [wide, box] = [await said(), await page.locator("canvas.map").boundingBox()];
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 20, { steps: 4 });
  await page.mouse.up();
  const many = (text) => Number(/([\d,]+) collectives matched/.exec(text)?.[1].replaceAll(",", ""));
  await page.waitForFunction((before) => { const t = document.querySelector(".readout").textContent; return /matched/.test(t) && t !== before; }, wide);
  check(many(await said()) > 0 && many(await said()) < many(wide) / 4, `a tenth of the time has fewer collectives: ${await said()} of ${wide}`);
  await shot("overview-zoomed.png");
  await page.focus("canvas.map");
  await page.keyboard.press("Home");
  await page.waitForFunction((before) => document.querySelector(".readout").textContent === before, wide);
  await page.evaluate(() => { delete window.showSaveFilePicker; }); // a dialog of the system, which cannot be answered here
  const [file] = await Promise.all([page.waitForEvent("download"), row.getByRole("button", { name: "Download" }).click()]);
  const size = fs.statSync(await file.path()).size;
  check(size > 1000 && /\.pftrace$/.test(file.suggestedFilename()), `the profile was downloaded: ${size} bytes`);
  const [perfetto] = await Promise.all([page.waitForEvent("popup"), row.getByRole("button", { name: "Open in Perfetto" }).click()]);
  await perfetto.waitForFunction(() => document.title !== "");
  check(await perfetto.title() === `from the page ${file.suggestedFilename()} ${size}`, `Perfetto got the whole profile: ${await perfetto.title()}`);
  await perfetto.close();
  await shot("complete-light.png");
  await page.emulateMedia({ colorScheme: "dark" });
  await drawn(page);
  await shot("complete-dark.png");

  await readable("a complete session");

  // ---- 400 pixels: nothing is cut off, and no text touches another ----
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 400, height: 900 });
  await drawn(page);
  await shot("400-light.png");
  const narrow = await page.evaluate(() => {
    const wide = (text, el) => { const g = new OffscreenCanvas(1, 1).getContext("2d"); g.font = getComputedStyle(el).font; return g.measureText(text).width; };
    const room = (el) => { const s = getComputedStyle(el); return el.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight); };
    const marks = [], fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
      const w = this.measureText(text).width;
      if (/^\+/.test(text)) marks.push([x - (this.textAlign === "right" ? w : this.textAlign === "center" ? w / 2 : 0), w]);
      return fill.call(this, text, x, ...rest);
    };
    dispatchEvent(new Event("resize"));
    CanvasRenderingContext2D.prototype.fillText = fill;
    const cells = [...document.querySelectorAll("#models tbody td")].filter((td) => td.textContent), text = (td) => { const r = document.createRange(); r.selectNodeContents(td); return r.getBoundingClientRect(); };
    return {
      fields: [...document.querySelectorAll("#start-form > label input")].filter((el) => wide(el.value || el.placeholder, el) > room(el)).map((el) => el.name),
      marks: marks.length, over: marks.filter(([x], i) => i > 0 && x < marks[i - 1][0] + marks[i - 1][1] + 8).length,
      close: cells.filter((td, i) => i > 0 && td.getBoundingClientRect().left > text(cells[i - 1]).left && td.getBoundingClientRect().left < text(cells[i - 1]).right + 20).map((td) => td.dataset.label),
    };
  });
  check(JSON.stringify(narrow) === '{"fields":[],"marks":3,"over":0,"close":[]}', `at 400 pixels: ${JSON.stringify(narrow)}`);
  await page.setViewportSize({ width: 1280, height: 900 });

  // ---- A flight recorder and its trigger, then delete ----
  await page.fill('#start-form input[name="name"]', "recorder");
  await page.selectOption('#start-form select[name="mode"]', "recorder");
  await page.click("#start-form button.primary");
  const recorder = page.locator("#session-table tr[data-session]", { hasText: "recorder" }).first();
  await page.waitForFunction(() => /recording/.test(document.querySelector("#session-table tbody tr").textContent));
  await page.fill('#trigger-form input[name="reason"]', "somebody looked");
  await page.fill('#trigger-form input[name="last"]', "5s");
  await recorder.getByRole("button", { name: "Trigger" }).click();
  await page.waitForFunction(() => /Triggers[^]*somebody looked/.test(document.getElementById("detail").textContent));
  await page.click("#trigger-all");
  await page.waitForFunction(() => /Trigger [0-9a-f]{16} was sent/.test(document.getElementById("message").textContent));
  await shot("recorder-light.png");
  await recorder.getByRole("button", { name: "Stop" }).click();
  await page.waitForFunction(() => /complete|failed/.test(document.querySelector("#session-table tbody tr").cells[2].textContent), null, { timeout: 60000 });
  await recorder.getByRole("button", { name: "Delete" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#session-table tbody tr").length === 2); // the one before, and that of another job
  await page.waitForSelector("#detail", { state: "hidden" });

  // ---- Device profiles: of the first execution on each core, and what a viewer exported of them ----
  await page.fill('#start-form input[name="name"]', "device");
  await page.selectOption('#start-form select[name="mode"]', "stream");
  await page.locator("#start-form summary").click();
  await page.selectOption('#start-form select[name="profiles"]', "model");
  await page.click("#start-form button.primary");
  const devices = page.locator("#device-profiles");
  await page.waitForFunction(() => document.querySelectorAll("#device-profiles tbody tr").length >= 8 && document.querySelectorAll("#device-profiles tbody button").length >= 8);
  const folder = path.join(WATCHED, "sim-a_pid_7");
  fs.mkdirSync(folder);
  fs.copyFileSync(DEVICE_PROFILE, path.join(folder, "device_profile_model_10001.pftrace"));
  fs.writeFileSync(path.join(folder, "trace_info.pb"), "opaque");
  const exported = devices.locator("tr", { hasText: "device_profile_model_10001.pftrace" });
  await exported.getByRole("button", { name: "Open in Perfetto" }).waitFor();
  await page.locator("#detail").getByRole("button", { name: "Stop" }).click();
  await page.waitForFunction(() => /^complete/.test(document.querySelector("#detail dd").textContent), null, { timeout: 60000 });
  check(await devices.locator("tbody tr", { hasText: ".ntff" }).count() === 8, `an NTFF of each of 8 cores: ${await devices.textContent()}`);
  check(/9, model/.test(await devices.locator("h3").textContent()), `how many, and of which kind: ${await devices.locator("h3").textContent()}`);
  check(await page.locator("#detail table.stack:not(#device-profiles *)").locator("tbody tr", { hasText: /ntff|pftrace/ }).count() === 0, "they are not listed twice");
  const [device] = await Promise.all([page.waitForEvent("popup"), exported.getByRole("button", { name: "Open in Perfetto" }).click()]);
  await device.waitForFunction(() => document.title !== "");
  const whole = fs.statSync(DEVICE_PROFILE).size;
  check(await device.title() === `device device_profile_model_10001.pftrace device_profile_model_10001.pftrace ${whole}`, `Perfetto got the device profile: ${await device.title()}`);
  await device.close();
  const [got] = await Promise.all([page.waitForEvent("download"), exported.getByRole("button", { name: "Download" }).click()]);
  check(fs.readFileSync(await got.path()).equals(fs.readFileSync(DEVICE_PROFILE)) && got.suggestedFilename() === "device_profile_model_10001.pftrace", `it was downloaded: ${got.suggestedFilename()}`);
  const ntff = devices.locator("tbody tr", { hasText: ".ntff" }).first();
  const [raw] = await Promise.all([page.waitForEvent("download"), ntff.getByRole("button", { name: "Download" }).click()]);
  check(/SIMULATED/.test(fs.readFileSync(await raw.path(), "latin1")), "an NTFF was downloaded");
  for (const [width, scheme] of [[1280, "light"], [1280, "dark"], [400, "light"], [400, "dark"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme });
    await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
    await devices.scrollIntoViewIfNeeded();
    await drawn(page); // the chart follows
    await shot(`device-${width}-${scheme}.png`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await readable("device profiles");
  await page.emulateMedia({ colorScheme: "light" });

  // ---- The list of jobs, the first page: each job has a page with an address ----
  const jobs = await context.newPage();
  await jobs.addInitScript((t) => sessionStorage.setItem("meridian-token", t), TOKEN);
  await jobs.goto(PAGE);
  const line = jobs.locator("#job-table tbody tr", { hasText: "job-sim-a" });
  await line.waitFor();
  await jobs.waitForFunction(() => [...document.querySelectorAll("#job-table tbody tr")].every((tr) => tr.querySelector(".spark path")));
  check(await jobs.locator("#job-table tbody tr").count() === 2, "both jobs are listed");
  await jobs.screenshot({ path: path.join(SHOTS, "jobs-light.png"), fullPage: true });
  await line.locator("a").focus();
  await jobs.keyboard.press("Enter");
  await jobs.waitForSelector('#job-live [aria-label="Ranks of the job"] tbody tr');
  const address = jobs.url();
  check(/#\/jobs\/[0-9a-f]{16}$/.test(address), `the job has an address: ${address}`);
  check(/^Job job-sim-a/.test(await jobs.locator("#job-title").textContent()) && /^Job job-sim-a/.test(await jobs.title()), "its name");
  check(/sim-a/.test(await jobs.locator("#job-live tbody").first().textContent()), "its rank and node");
  check(await jobs.getByRole("button", { name: "Record 30 s" }).isVisible(), "an operator can record it");
  await jobs.screenshot({ path: path.join(SHOTS, "job-light.png"), fullPage: true });
  const shared = await context.newPage();
  await shared.addInitScript((t) => sessionStorage.setItem("meridian-token", t), TOKEN);
  await shared.setViewportSize({ width: 400, height: 900 });
  await shared.emulateMedia({ colorScheme: "dark" });
  await shared.goto(address);
  await shared.waitForSelector('#job-live [aria-label="Ranks of the job"] tbody tr');
  check(await shared.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page of a job fits a phone");
  await shared.screenshot({ path: path.join(SHOTS, "job-400-dark.png"), fullPage: true });
  await shared.evaluate(() => { location.hash = "#/jobs/0123456789abcdef"; });
  await shared.waitForSelector("#job-gone");
  await shared.close();
  await jobs.goBack();
  await line.waitFor();
  await jobs.close();

  // ---- Nothing there yet, and nobody there any more ----
  await page.emulateMedia({ colorScheme: "light" });
  const empty = await context.newPage();
  await empty.addInitScript((t) => sessionStorage.setItem("meridian-token", t), TOKEN);
  await empty.route("**/api/v1/nodes", (route) => route.fulfill({ json: { nodes: [] } }));
  await empty.route("**/api/v1/sessions", (route) => route.fulfill({ json: { sessions: [] } }));
  await empty.route("**/api/v1/jobs", (route) => route.fulfill({ json: { jobs: [], left_out: 0, unnamed: 0 } }));
  await empty.goto(PAGE);
  await empty.waitForSelector("#jobs-empty");
  check(/MERIDIAN_JOB/.test(await empty.locator("#jobs-empty").textContent()), "how a job gets into the list is said");
  await empty.evaluate(() => { location.hash = "#/sessions"; });
  await empty.waitForSelector("#sessions-empty");
  await empty.evaluate(() => { location.hash = "#/nodes"; });
  await empty.waitForSelector("#nodes-empty");
  check(/meridian-agent --aggregator/.test(await empty.locator("#nodes-empty").textContent()) && await empty.locator("#nodes-empty").isVisible(), "an empty cluster is told how to begin");
  check(await empty.locator("#trigger-form").isHidden(), "nothing to trigger");
  await empty.screenshot({ path: path.join(SHOTS, "empty-light.png"), fullPage: true });
  await empty.close();

  // ---- A large cluster: who needs attention stands first, the others when they are asked for ----
  const large = await context.newPage();
  await large.addInitScript((t) => sessionStorage.setItem("meridian-token", t), TOKEN);
  let real = null; // the session that all others are copies of
  await large.route("**/api/v1/sessions", async (route) => {
    const { sessions } = await (await route.fetch()).json();
    real = sessions[0].id;
    await route.fulfill({ json: { sessions: [...sessions, ...Array.from({ length: 60 }, (_, i) => ({ ...sessions[0], id: `20250101-000000-${1000 + i}`, name: `${"long-".repeat(20)}${i}` }))] } });
  });
  await large.route("**/api/v1/nodes", async (route) => {
    const { nodes } = await (await route.fetch()).json();
    await route.fulfill({ json: { nodes: Array.from({ length: 30 }, (_, i) => ({ ...nodes[0], instance_id: `many-${String(i).padStart(2, "0")}`, host_name: `${"long-".repeat(20)}${i}`, connected: i !== 27, seen: "2025-11-21T09:10:11Z" })) } });
  });
  await large.goto(`${PAGE}#/nodes`);
  const listed = () => large.locator("#nodes tbody tr:visible").evaluateAll((all) => all.map((tr) => tr.dataset.node));
  await large.waitForSelector('#nodes tr[data-node="many-27"]');
  let ids = await listed();
  check(ids.length === 20 && ids[0] === "many-27" && ids[1] === "many-00", `of 30 nodes 20 are listed, the missing one first: ${ids}`);
  check(/^29 of 30 connected/.test(await large.locator("#nodes-count").textContent()), "how many are connected is said");
  await large.getByRole("button", { name: "Show all 30 nodes" }).click();
  check((ids = await listed()).length === 30, `all are listed when they are asked for: ${ids.length}`);
  check(await large.evaluate(() => { const box = document.querySelector("#nodes").parentElement; return box.scrollWidth <= box.clientWidth; }), "a long host name moves no column out of the window");
  const away = large.locator('#nodes tr[data-node="many-27"] td');
  check(/since 2025-11-21 09:10 UTC$/.test(await away.nth(1).textContent()), `a node that went days ago has a date: ${await away.nth(1).textContent()}`);
  check((await away.allTextContents()).filter((t) => t === "–").length === 3, "and neither a rate nor a clock");
  await large.evaluate(() => { location.hash = "#/sessions"; });
  await large.fill("#session-filter", "long-");
  await large.waitForFunction(() => /^60 of \d+$/.test(document.getElementById("sessions-count").textContent));
  await large.fill("#session-filter", "");
  let looks = 0; // something is new at every look
  await large.route(/\/api\/v1\/sessions\/[^/]+$/, async (route) => {
    const m = await (await route.fetch({ url: `${PAGE}api/v1/sessions/${real}` })).json();
    await route.fulfill({ json: { ...m, begun: ++looks, dropped: 300, profile: { state: "none" }, store_message: "the disk is full", export: { state: "failed", message: "no answer" },
      nodes: Array.from({ length: 60 }, (_, i) => ({ ...m.nodes[0], instance_id: `many-${i}`, counters: { ...m.nodes[0].counters, dropped: 5, unwanted: 5, drops: [{ cause: "recorder-window", count: 5 }] },
        tally: { ...m.nodes[0].tally, ...(i === 58 && { unselected: { processes: 1, message: "1 process ran there that no session selected" } }) } })),
      triggers: [{ id: "0123456789abcdef", reason: "somebody looked", answered: 58, unacknowledged: ["many-27", "many-28"], from: "2026-11-24T09:00:00.123456789Z", to: "2026-11-24T09:00:20Z" }] } });
  });
  const newest = large.locator("#session-table tr[data-session]:visible button.link").first();
  await newest.click();
  const top = () => large.evaluate(() => document.getElementById("detail").getBoundingClientRect().top);
  await large.waitForFunction(() => document.querySelector("#detail table") && Math.abs(document.getElementById("detail").getBoundingClientRect().top) < 450);
  check(await top() < 450, `the details of a session are before one's eyes, whatever stands above: at ${await top()} of 900`);
  check(await large.evaluate(() => document.documentElement.scrollHeight) < 5000, "a long list scrolls in its own box");
  const facts = await large.locator("#detail dl").textContent(), asked = await large.locator("#detail [aria-label=Triggers] tbody").textContent();
  check(/ begun, 0 lost, 300 not wanted, /.test(facts) && /Profilemade when it is opened/.test(facts), `an overwritten window of a recorder is no loss: ${facts}`);
  check(/Nothing is stored nowthe disk is full/.test(facts) && /Exportfailed: no answer/.test(facts), `what goes wrong is said: ${facts}`);
  check(/2026-11-24 09:00:00\.1232026-11-24 09:00:2058somebody looked; not acknowledged by many-27, many-28/.test(asked), `who did not acknowledge a trigger: ${asked}`);
  const marked = await large.locator("#detail").getByRole("group", { name: "Nodes of the session" }).locator("tbody tr").first().textContent();
  check(/^many-58.*1 process ran there that no session selected/.test(marked), `the first node listed is the one with a process outside of all sessions: ${marked}`);
  await large.locator("#detail").getByRole("button", { name: "Show all 60 nodes" }).click();
  const rowsBox = large.getByRole("group", { name: "Nodes of the session" });
  await rowsBox.evaluate((el) => { el.scrollTop = 300; });
  await rowsBox.focus();
  const seen = looks;
  await large.waitForFunction((n) => Number(/([\d,]+) begun/.exec(document.querySelector("#detail dl").textContent)[1].replaceAll(",", "")) > n + 1, seen); // written again, twice
  check(await rowsBox.evaluate((el) => el.scrollTop === 300 && el === document.activeElement), "a table that is written again stays where it was scrolled to, and keeps the focus");
  check(await large.locator("#detail").getByRole("group", { name: "Triggers" }).getAttribute("tabindex") === null, "a table that has nothing to scroll is no stop of Tab");
  await large.locator("#detail").getByRole("button", { name: "Close" }).click();
  check(await newest.evaluate((el) => el === document.activeElement), "the focus goes back to the session whose details were closed");
  await newest.click();
  await large.waitForFunction(() => document.querySelector("#detail table"));
  await large.screenshot({ path: path.join(SHOTS, "large-light.png"), fullPage: true });
  await large.close();

  let gone = true;
  await page.route("**/api/v1/**", (route) => gone ? route.abort("connectionrefused") : route.continue());
  await page.waitForFunction(() => /No answer from the aggregator since .* shows the state of that time/.test(document.getElementById("message").textContent), null, { timeout: 60000 });
  check(await page.locator("#nodes tbody tr").count() === 2, "what was known is still shown");
  await shot("no-answer-light.png");
  gone = false;
  await page.waitForFunction(() => document.getElementById("message").hidden && document.getElementById("connection").textContent === "connected", null, { timeout: 60000 });

  // ---- Narrow, and by keyboard alone from the top ----
  await page.setViewportSize({ width: 480, height: 800 });
  const fits = () => page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, null, { timeout: 60000 }).then(() => true, () => false);
  check(await fits(), "a narrow window scrolls tables, not the page"); // once the chart has followed
  await shot("narrow-light.png");
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.evaluate(() => document.activeElement.blur());
  const reached = new Set();
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    const where = await page.evaluate(() => {
      const el = document.activeElement, style = getComputedStyle(el);
      return [el.id || el.name || el.textContent.trim(), el === document.body || style.outlineStyle !== "none" || style.boxShadow !== "none"];
    });
    check(where[1], `the focus on ${where[0]} can be seen`);
    reached.add(where[0]);
  }
  for (const name of ["skip", "Jobs", "Sessions", "Nodes", "Clocks", "token", "Use", "name", "mode", "duration", "require", "Also record", "Start"]) check(reached.has(name), `Tab reaches ${name}: ${[...reached]}`);
} catch (e) {
  check(false, String(e));
  await shot("failure.png");
}
check(complaints.length === 0, `the console is silent: ${complaints.join("; ")}`);
check(foreign.every((url) => url.startsWith("https://ui.perfetto.dev/")), `nothing is fetched from elsewhere: ${foreign}`);
await browser.close();
console.log(failures.length === 0 ? "the page works" : `${failures.length} failures`);
process.exit(failures.length === 0 ? 0 : 1);
