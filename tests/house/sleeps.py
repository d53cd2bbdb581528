"""The rule `sleeps` finds each kind of pause that a test may not make, and nothing else: planted ones in a repository of its own."""
import os
import re
import subprocess
import sys
import tempfile

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules.py")
REFUSED = {
    "tests/agent/a_test.c": ["    usleep(100);", "    nanosleep(&ts, NULL);", "    (void) poll(NULL, 0, 5);", "    sleep (1);", "    select(0, NULL, NULL, NULL, &tv);"],
    "tests/aggregator/b.h": ["    clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);"],
    "tests/e2e/c.py": ["    time.sleep(0.3)", "from time import sleep", "    asyncio.sleep(1)"],
    "tests/e2e/d.mjs": ["  await page.waitForTimeout(300);", "  await new Promise((r) => setTimeout(r, 5));"],
    "tests/e2e/e.sh": ["sleep 2", "  while :; do sleep $pause; done"],
}
ALLOWED = {
    "tests/wait.h": ["    nanosleep(&ts, NULL);"],
    "tests/e2e/wait.py": ["    time.sleep(seconds)"],
    "tests/e2e/wait.mjs": ["    await new Promise((r) => setTimeout(r, 5));"],
    "tests/agent/f_test.c": ["    TEST_UNTIL(done);", "    test_pace(1000);", "    (void) poll(&fd, 1, 100);", "    /* no usleep(1) */", "    is_asleep(p);"],
    "tests/e2e/g.py": ["    let_it_run(1)", "    until(lambda: done, 'it is done')", "    asleep = 1"],
    "agent/h.c": ["    nanosleep(&ts, NULL);"],
}

with tempfile.TemporaryDirectory() as top:
    for path, lines in {**REFUSED, **ALLOWED}.items():
        os.makedirs(os.path.join(top, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(top, path), "w") as f:
            f.write("\n".join(lines) + "\n")
    subprocess.run(["git", "-C", top, "init", "-q"], check=True)
    subprocess.run(["git", "-C", top, "add", "-A"], check=True)
    p = subprocess.run([sys.executable, RULES, "sleeps"], env=dict(os.environ, MERIDIAN_SOURCE=top), capture_output=True, text=True)
got = set(re.findall(r"^FAILED (\S+:\d+): ", p.stdout, re.M))
want = {f"{path}:{n}" for path, lines in REFUSED.items() for n in range(1, len(lines) + 1)}
print(f"{len(want)} planted pauses; missed: {sorted(want - got)}; refused though allowed: {sorted(got - want)}; exit status {p.returncode}")
sys.exit(got != want or p.returncode != 1)
