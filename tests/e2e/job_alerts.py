"""The alerts about jobs in the fake time of promtool: each fires for every job with its fault, at the time that the rule states, and for no
healthy job in 1,000 hours. Healthy jobs have short verdicts, long pauses and ends too. Drawn from MRD_SEED (1)."""
import json
import os
import random
import shutil
import subprocess

from lib import SOURCE, check, equal, finish, skip, tmp

FAULTS, HEALTHY, HOURS = 20, 40, 25
MINUTES = HOURS * 60
promtool = shutil.which("promtool")
if promtool is None:
    skip("promtool is not installed (the Debian package prometheus)")
draw = random.Random(int(os.environ.get("MRD_SEED", "1")))
rules = os.path.join(SOURCE, "deploy/monitoring/alerts.yml")


def labels(number):
    return f'instance="a",job="meridian",job_key="trn//{number}/0",uid="{1000 + number}",confirmed="true"'


def series(number, state_of, age_of):
    """The samples of a job, one a minute; Prometheus marks a sample that is absent as stale. state_of and age_of: the state and the age of the last step in each minute, None without a sample."""
    out = []
    for state in ("standing", "slow", "running", "finished"):
        values = ["1" if state_of(m) == state else "stale" for m in range(MINUTES)]
        if "1" in values:
            out.append({"series": f'meridian_job_state{{{labels(number)},state="{state}"}}', "values": " ".join(values)})
    values = ["stale" if age_of(m) is None else str(age_of(m)) for m in range(MINUTES)]
    out.append({"series": f"meridian_job_last_step_age_seconds{{{labels(number)}}}", "values": " ".join(values)})
    return out


def healthy(number):
    """A job that ends, with verdicts that are withdrawn within a minute, and pauses of up to 14 minutes without a step."""
    end = draw.randrange(MINUTES // 2, MINUTES)
    slow, stands = ({draw.randrange(end) for _ in range(20)} for _ in range(2))
    pauses = {}
    for _ in range(6):
        at, long = draw.randrange(end), draw.randrange(2, 14)
        pauses.update({at + k: 60 * k for k in range(long)})
    slow = {m for m in slow if m - 1 not in slow and m + 1 not in slow}
    stands = {m for m in stands if m - 1 not in stands and m + 1 not in stands}
    return series(number, lambda m: "finished" if m >= end else "slow" if m in slow else "standing" if m in stands else "running",
                  lambda m: None if m >= end else pauses.get(m, 0.1))


def faulty(number, alert, at):
    if alert == "MeridianJobWithoutSteps":
        return series(number, lambda m: "running", lambda m: max(0, m - at) * 60 + 0.1)
    state = {"MeridianJobStands": "standing", "MeridianJobSlow": "slow"}[alert]
    return series(number, lambda m: "running" if m < at else state, lambda m: max(0, m - at) * 60 + 0.1 if m >= at and state == "standing" else 0.1)


# Minutes from the fault to the alert: the duration of the rule, and for the last one 15 minutes without a step.
AFTER = {"MeridianJobStands": 1, "MeridianJobSlow": 2, "MeridianJobWithoutSteps": 15 + 1}
input_series, tests, number = [], [], 0
for _ in range(HEALTHY):
    number += 1
    input_series += healthy(number)
fired = {}
for alert, after in AFTER.items():
    for _ in range(FAULTS):
        number += 1
        at = draw.randrange(10, MINUTES - 60)
        input_series += faulty(number, alert, at)
        fired[number] = (alert, at + after)


def count(alert, when, numbers):
    """Which jobs of these have the alert in this minute."""
    return {"expr": f'count by (alertname, job_key) (ALERTS{{alertname=~"{alert}",alertstate="firing"}})', "eval_time": f"{when}m",
            "exp_samples": [{"labels": f'{{alertname="{fired[n][0]}",job_key="trn//{n}/0"}}', "value": 1} for n in numbers]}


for when in sorted({w for _, first in fired.values() for w in (first - 1, first)} | {MINUTES - 1} | set(range(0, MINUTES, 7))):
    tests.append(count("MeridianJob.*", when, sorted(n for n, (_, first) in fired.items() if when >= first)))
work = tmp()
path = os.path.join(work, "rules.json")
with open(path, "w") as f:
    json.dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": [{"interval": "1m", "input_series": input_series, "promql_expr_test": tests}]}, f)
p = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True)
shutil.rmtree(work)
print(f"{HEALTHY * HOURS} healthy hours of jobs, {len(fired)} faults, {len(tests)} looks")
equal(p.returncode, 0, f"promtool test rules: {(p.stdout + p.stderr)[-3000:]}")
check(len(fired) == FAULTS * len(AFTER) and HEALTHY * HOURS >= 1000, "what was drawn")
finish()
