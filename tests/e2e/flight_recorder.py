"""Reads real dumps of PyTorch's flight recorder from jobs that hang. The report must name the ranks
at which the fault was injected first."""
import glob
import os
import re

from lib import check, data, equal, finish, load_json, run, skip, tmp

sets = sorted(os.path.dirname(p) for p in glob.glob(data("nvrx-flight-recorder", "*", "fault_injection.log")))
if not sets:
    skip("the test data has no folder nvrx-flight-recorder")
for folder in sets:
    name = os.path.basename(folder)
    with open(os.path.join(folder, "fault_injection.log"), encoding="utf-8") as f:
        truth = sorted(int(n) for n in re.search(r"Fault ranks: \[([\d, ]*)\]", f.read()).group(1).split(","))
    dumps = len(glob.glob(os.path.join(folder, "_dump_*")))
    out = tmp()
    run("view", "-d", folder, "-o", out, "--output-format", "report-json,summary-json,perfetto")
    report = load_json(os.path.join(out, "report.json"))
    equal(sorted(r["rank"] for r in report["report"]["flight_recorder"]["ranks"]), truth, f"{name}: named ranks")
    equal(report["report"]["verdict"]["kind"], "stands still", f"{name}: verdict")
    equal(report["report"]["flight_recorder"]["dumps"], dumps, f"{name}: dumps")
    inputs = report["meridian"]["inputs"]
    equal([i["path"] for i in inputs if i["state"] != "ok"], [], f"{name}: inputs that are not ok")
    equal(len(inputs), dumps, f"{name}: inputs")
    text, _ = run("report", folder)
    sentence = " ".join(text.split("\n\n")[0].split())
    check(f"the job waits for ranks {' and '.join(map(str, truth))}" in sentence, f"{name}: {sentence}")
finish()
