"""Do the tests notice when the code is wrong? Changes one operator, comparison, constant, condition or call at a time in a copy of the
sources, builds the unit tests of the module and runs them. A mutant that no test notices shows what the tests do not check.
What the plain build does not notice, the tests get once more under AddressSanitizer and UBSan, as in the gate.

usage: mutants.py [--mutants N] [--seed S] [--modules a,b] [--work DIR] [--jobs N] [--at FILE[:LINE]] [--plain] [--check]
                  [--check-runner] [--list]

N: mutants per module (16), `all`: every one. S: printed; the same seed on the same sources chooses the same mutants.
--at: only changes of this file (and line). --plain: without sanitizers, which takes half the time and leaves a few more.
--check: no mutants; checks the list of equivalent ones and the mutator itself. --check-runner: plants what changes nothing, what
no test can see, what does not compile and what never ends, and checks how each is counted.
A test counts only when it fails twice: not one that failed by chance, or because the machine was busy.
A change of which the compiler makes the same code means the same as the original. Other survivors of which this is so are in
equivalent.txt beside this file, those that a test could notice and none does in survivors.txt, one per line with a reason.
Exit status 1 when a module's tests notice less than 90 % of those that are not equivalent."""
import argparse
import fcntl
import glob
import hashlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import source  # noqa: E402

GOAL = 0.9
# Module: what is changed, the tests that must notice it.
MODULES = {
    "journal": (["aggregator/journal/*.c", "aggregator/merge/journal_source.c", "aggregator/journal/segment.h"],
                ["aggregator/journal", "aggregator/journal_files", "aggregator/journal_recover", "aggregator/journal_sync", "aggregator/journal_source",
                 "aggregator/merge_damage", "fuzz/journal",
                 "aggregator/merge_once", "aggregator/merge", "aggregator/merge_faults", "sim/store"]),
    "seqset": (["aggregator/core/common/seqset.c"], ["aggregator/seqset", "aggregator/journal"]),
    "core": (["aggregator/core/*/*.c"],
             ["aggregator/core", "aggregator/core_limits", "aggregator/core_said", "aggregator/core_agents", "aggregator/core_basics", "aggregator/core_clock", "aggregator/core_clocks_said",
              "aggregator/core_commands", "aggregator/core_counts", "aggregator/core_empty", "aggregator/core_frames", "aggregator/core_json", "aggregator/core_models",
              "aggregator/core_select", "aggregator/core_session", "aggregator/core_steps", "aggregator/core_stored", "aggregator/core_targets", "aggregator/core_told",
              "aggregator/part_count", "aggregator/jobs", "aggregator/retention", "aggregator/conversions",
              "aggregator/estimate", "aggregator/seqset", "aggregator/manifest_whole", "aggregator/manifest", "aggregator/service", "sim/cluster"]),
    "spool": (["agent/spool/*.c"], ["agent/spool", "agent/spool_damage", "agent/spool_counts", "agent/spool_model", "agent/spool_faults", "agent/spool_boot", "agent/spool_unreported",
               "agent/spool_runs", "agent/record", "fuzz/spool"]),
    "wire": (["proto/batch/batch.c", "proto/batch/batch_columns.c", "proto/batch/batch_head.c", "proto/batch/codec.c",
              "proto/frame.c", "proto/wire.c"],
             ["proto/batch", "proto/batch_model", "proto/batch_forms", "proto/wire", "fuzz/wire_batch", "fuzz/wire_message", "trace/in"]),
    "batch_read": (["proto/batch/batch_read.c", "proto/batch/batch_read_head.c"], ["proto/batch", "proto/batch_model", "fuzz/wire_batch"]),
    "clocks": (["timesync/*.c", "timesync/collective/*.c"],
               ["timesync/*", "sim/clocks", "sim/absolute", "sim/timescale_link", "fuzz/align", "fuzz/probe"]),
    "merge": (["trace/store/merge.c", "aggregator/merge/merge_*.c"],
              ["trace/merge", "trace/stream", "aggregator/merge", "aggregator/merge_damage", "aggregator/merge_incarnations",
               "aggregator/merge_check", "aggregator/merge_clocks", "aggregator/merge_faults", "aggregator/merge_once", "aggregator/merge_marks",
               "aggregator/merge_input"]),
    "importers": (["trace/import/*.c", "trace/import/*/*.c"],
                  ["trace/import_*", "trace/vendor", "trace/in", "trace/open", "trace/nrt_clock", "trace/nrt_layout*", "fuzz/import_*", "cli/align"]),
    "report": (["trace/analysis/*.c", "trace/analysis/judge/*.c", "trace/sink/report/sink_report*.c", "trace/sink/report/report_text*.c"],
               ["trace/report", "trace/report_late", "trace/report_golden", "trace/gather", "trace/steps", "trace/workers", "trace/collectives",
                "trace/compare", "trace/compare_model", "trace/hist", "trace/calls", "trace/summary", "trace/sink_golden", "trace/scope_memory",
                "trace/report_grades", "trace/kernels", "trace/lateness", "trace/memory_use", "trace/proof", "trace/queue_depth", "trace/launches", "trace/trend", "trace/report_wrap",
                "trace/analysis_free", "trace/sink_faults", "trace/report_oracle"]),
    "translator": (["agent/rings/translate.c", "agent/rings/loss_count.c", "agent/rings/ring_tracks.c", "agent/rings/blobs.c"],
                   ["agent/translate", "agent/translate_calls", "agent/drain", "agent/owned", "agent/open"]),
}
# Tests that are scripts: the target that they run, and its program. Without sanitizers only.
PROGRAMS = {"trace/report_oracle": ("meridian_program", "meridian"), "trace/import_oracle": ("import_words", "import_words"),
            "trace/import_lines": ("import_words", "import_words"), "trace/import_heads": ("import_words", "import_words")}
# Copied for the mutants to be made in.
FOLDERS = ("base", "trace", "capture", "hw", "sim", "timesync", "pki", "proto", "httpd", "agent", "aggregator", "cli", "bench", "examples", "cmake",
           "docs", "tests", "python", "deploy", "scripts")


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


def say(*words):
    print(*words, flush=True)


def temporary():
    """A folder for what tests write: in memory where there is room, several times faster."""
    memory = "/dev/shm"
    room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    return f"{memory if room else '/tmp'}/mut{os.getpid()}"


def lock(work):
    """Two runs in one folder would judge each other's changes; the file stays open until this program ends."""
    os.makedirs(work, exist_ok=True)
    f = open(os.path.join(work, "lock"), "w")
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"mutants: another run works in {work}: wait for it, or give another folder with --work")
    return f


class Tree:
    """A copy of the sources, with a build of its own; sanitize: under AddressSanitizer and UBSan."""

    def __init__(self, work, jobs, sanitize=False):
        self.src, self.build = os.path.join(work, "src"), os.path.join(work, "sanitize" if sanitize else "build")
        self.tmp, self.sanitize = temporary(), sanitize
        self.jobs, self.tests = jobs, {}

    def limits(self):
        """For a mutant that allocates or writes without end."""
        if not self.sanitize: # it maps terabytes; its own limit is in the environment
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def copy(self):
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split("\n")
        keep = {n for n in names if n and (n.split("/")[0] in FOLDERS or "/" not in n) and os.path.isfile(os.path.join(ROOT, n))}
        for at, _, files in os.walk(self.src):
            for name in files:
                if os.path.relpath(os.path.join(at, name), self.src) not in keep:
                    os.unlink(os.path.join(at, name))
        for name in sorted(keep):
            to = os.path.join(self.src, name)
            with open(os.path.join(ROOT, name), "rb") as f:
                data = f.read()
            if os.path.isfile(to):
                with open(to, "rb") as f:
                    if f.read() == data:
                        continue
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, "wb") as f:
                f.write(data)
            shutil.copymode(os.path.join(ROOT, name), to)

    def configure(self):
        os.makedirs(self.tmp, exist_ok=True)
        fast = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"] if shutil.which("ld.lld") else [] # most of a mutant's time is linking
        subprocess.run(["cmake", "-S", self.src, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                        "-DCMAKE_C_FLAGS_DEBUG=-O1 -w", "-DMRD_WERROR=OFF", *fast, f"-DMRD_SANITIZE={'address' if self.sanitize else ''}"],
                       check=True, stdout=subprocess.DEVNULL)
        self.make([]) # ctest names no command whose program is not there
        shown = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        for test in json.loads(shown)["tests"]:
            properties = {p["name"]: p["value"] for p in test["properties"]}
            if "command" in test and "slow" not in properties.get("LABELS", []):
                self.tests[test["name"]] = (test["command"], properties.get("ENVIRONMENT", []))

    @staticmethod
    def target(name):
        return PROGRAMS[name][0] if name in PROGRAMS else ("" if name.startswith("fuzz/") else "test_") + name.replace("/", "_")

    def program(self, name):
        """What the test runs, as a number: the same for the same code."""
        return digest(os.path.join(self.build, "bin", PROGRAMS[name][1] if name in PROGRAMS else self.target(name)))

    def objects(self, path):
        """What the compiler made of a source: {file: number}; empty for a header."""
        folder, _, name = path.rpartition("/")
        top = folder.split("/")[0]
        found = glob.glob(f"{self.build}/{top}/**/CMakeFiles/*/**/{name}.o", recursive=True)
        return {f: digest(f) for f in found}

    def targets(self, tests):
        return ["mrd_guard"] + [self.target(name) for name in tests]

    def make(self, tests):
        return subprocess.run(["cmake", "--build", self.build, "-j", str(self.jobs), "--target"] + self.targets(tests),
                              env=dict(os.environ, MRD_PLANT_IF_ABLE="1"), # the change may be in lines that a bug replaces
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, name, seconds):
        """None when the test passed, else what it said last."""
        command, environment = self.tests[name]
        env = dict(os.environ, TMPDIR=self.tmp, **dict(e.split("=", 1) for e in environment if "=" in e))
        if name == "sim/cluster":
            env.setdefault("MRD_SEEDS", "60") # else 500
        env.setdefault("MERIDIAN_TEST_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data")) # as tests of ROOT find it
        if self.sanitize:
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":hard_rss_limit_mb=8192"
        r = subprocess.run([command[0], str(seconds)] + command[2:], cwd=self.build, env=env, preexec_fn=self.limits,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for left in os.listdir(self.tmp):
            shutil.rmtree(os.path.join(self.tmp, left), ignore_errors=True)
        if r.returncode in (0, 77):
            return None
        return "hang" if r.returncode == 124 else r.stdout.decode("utf-8", "replace")[-200:]


class Module:
    """trees: the plain one, then the sanitized one, which is built when a mutant first survives; none to read only."""

    def __init__(self, name, trees=()):
        self.name, self.trees = name, trees
        patterns, tests = MODULES[name]
        top = trees[0].src if trees and os.path.isdir(trees[0].src) else ROOT # of one moment, whoever edits ROOT meanwhile
        found = {g: glob.glob(os.path.join(top, g)) for g in patterns}
        self.missing = [g for g in patterns if not found[g]]
        self.paths = sorted(os.path.relpath(p, top) for paths in found.values() for p in paths)
        self.texts = {}
        for path in self.paths:
            with open(os.path.join(top, path), encoding="utf-8") as f:
                self.texts[path] = f.read()
        self.patterns, self.order, self.noticed, self.counts, self.survivors = tests, {}, {}, {}, []
        self.programs = {} # {(tree, test): its program without a change; (tree, source): what was compiled of it}

    def changes(self):
        return [c for path in self.paths for c in source.changes_of(path, self.texts[path])]

    def choose(self, n, seed):
        """n of them, each kind of change as often as it can be."""
        every = self.changes()
        if n == "all":
            return every
        dice = random.Random(f"{seed}/{self.name}")
        kinds = {}
        for c in every:
            kinds.setdefault(c.kind, []).append(c)
        chosen = []
        while kinds and len(chosen) < n:
            kind = dice.choice(sorted(kinds))
            chosen.append(kinds[kind].pop(dice.randrange(len(kinds[kind]))))
            if not kinds[kind]:
                del kinds[kind]
        return chosen

    def prepare(self, tree):
        """Builds and times the tests without a change: [(name, seconds it may take)], the quick ones first."""
        tests = []
        for pattern in self.patterns:
            rule = re.compile("^" + pattern.replace("*", ".*") + "$")
            of_pattern = [t for t in sorted(tree.tests) if rule.match(t)]
            if not of_pattern:
                sys.exit(f"mutants: no test of module {self.name} is named {pattern}")
            tests += [t for t in of_pattern if t not in tests and not (tree.sanitize and t in PROGRAMS)]
        made = tree.make(tests)
        if made.returncode != 0:
            sys.exit(f"mutants: the unchanged sources do not build:\n{made.stdout[-3000:]}")
        for path in self.paths:
            self.programs[tree, path] = tree.objects(path)
        took = {}
        for name in tests:
            self.programs[tree, name] = tree.program(name)
            start = time.monotonic()
            said = tree.run(name, 300)
            if said is not None:
                sys.exit(f"mutants: {name} fails without any change; make it pass first:\n{said}")
            took[name] = time.monotonic() - start
        say(f"{self.name}: " + ", ".join(f"{name} {took[name]:.1f} s" for name in sorted(tests, key=took.get)))
        return [(name, int(10 + 6 * took[name])) for name in sorted(tests, key=took.get)]

    def judge_in(self, tree, path):
        """With the change in the sources. The tests that noticed most changes of this file go first; each is built when it is due, and
        runs when its program is another one. Where even the object is the same, the compiler proved that the change means nothing."""
        for name, seconds in sorted(self.order[tree], key=lambda test: -self.noticed.get((path, test[0]), 0)):
            if tree.make([name]).returncode != 0:
                return "did not compile", ""
            if tree.program(name) == self.programs[tree, name]:
                continue
            said = tree.run(name, seconds)
            if said is not None and tree.run(name, seconds) is None: # by chance, or as the machine was busy
                say(f"{self.name}: {name} failed once and then passed: that counts for nothing")
            elif said is not None:
                self.noticed[path, name] = self.noticed.get((path, name), 0) + 1
                return "noticed", name + (" (hang)" if said == "hang" else "") + (" (sanitizer)" if tree.sanitize else "")
        same = self.programs[tree, path]
        return ("equivalent", "the compiler") if same and tree.objects(path) == same else ("survived", "")

    def judge(self, c):
        outcome = "survived", ""
        for tree in self.trees:
            if tree not in self.order:
                if not tree.tests:
                    tree.configure()
                self.order[tree] = self.prepare(tree)
            path = os.path.join(tree.src, c.path)
            with open(path, "w", encoding="utf-8") as f:
                f.write(source.apply(self.texts[c.path], c))
            try:
                outcome = self.judge_in(tree, c.path)
            finally:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(self.texts[c.path])
            if outcome[0] != "survived":
                break
        return outcome

    def go(self, chosen, equivalent):
        for i, c in enumerate(chosen):
            if c.key() in equivalent:
                outcome, who = "equivalent", ""
            else:
                outcome, who = self.judge(c)
            self.counts[outcome] = self.counts.get(outcome, 0) + 1
            if outcome == "survived":
                self.survivors.append(c)
            say(f"{self.name} {i + 1}/{len(chosen)} {outcome}{' by ' + who if who else ''}: {c}")

    def share(self):
        n = self.counts.get("noticed", 0) + self.counts.get("survived", 0)
        return self.counts.get("noticed", 0) / n if n else 1.0


def read_list(name):
    """{key: reason}"""
    found, bad = {}, []
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [p.strip() for p in line.rstrip("\n").split(" ## ")]
            if len(parts) != 5 or not parts[4]:
                bad.append(f"{name}:{n}: write path ## function ## line ## change ## reason")
                continue
            found[tuple(parts[:4])] = parts[4]
    return found, bad


def check():
    """The lists name only changes that exist, each in one of them; the mutator does what it says."""
    equivalent, bad = read_list("equivalent.txt")
    survivors, wrong = read_list("survivors.txt")
    bad += wrong + [f"both equivalent and a survivor: {' ## '.join(k)}" for k in equivalent if k in survivors]
    modules = [Module(name) for name in MODULES]
    bad += [f"module {m.name}: no source is named {pattern}" for m in modules for pattern in m.missing]
    every = {c.key() for m in modules for c in m.changes()}
    bad += [f"{name}: no such change, take the line out: {' ## '.join(k)}"
            for name, keys in (("equivalent.txt", equivalent), ("survivors.txt", survivors)) for k in keys if k not in every]
    text = ('#define A 1 + \\\n  2\nstatic_assert(1 < 2, "x");\nint\nf(int a)\n{\n    char b[3] = { 0 }; /* a < 1 */\n'
            '    if (a < 7 && g("1 < 2"))\n        return a - 1;\n    fsync(a);\n    log_info("%d", a + 1);\n'
            '    if ((fd = open()) < 0 && s->fd >= 0)\n        return 0;\n'
            '    if (!a && !mrd_local_before(a, b))\n        return 0;\n    if (a)\n        g((int) h(a));\n}\n')
    got = sorted(c.what for c in source.changes_of("x.c", text))
    want = sorted(["if negated", "< -> <=", "7 -> 8", "7 -> 6", "&& -> ||", "no return", "- -> +", "1 -> 2", "1 -> 0", "no fsync()",
                   "if negated", "&& -> ||", "no return", "0 -> 1", "if negated", "&& -> ||", "no !",
                   "mrd_local_before -> mrd_local_after", "no return #2", "0 -> 1 #2", # of a line like the one before
                   "if negated", "no g()"])
    if got != want:
        bad.append(f"mutants of the sample are {got}, expected {want}")
    for c in source.changes_of("x.c", text):
        if source.apply(text, c).count("\n") != text.count("\n") or source.apply(text, c) == text:
            bad.append(f"not one change: {c}")
    if [c.line for c in source.changes_of("x.c", text) if c.what == "no fsync()"] != [10]:
        bad.append("the line of a mutant is wrong")
    for line in bad:
        say(line)
    return 1 if bad else 0


def check_runner(trees):
    """Changes whose outcome is known: one that changes nothing, one that nobody can see, one that does not compile, one that never ends."""
    m = Module("seqset", trees[:1])
    path, text = m.paths[0], m.texts[m.paths[0]]
    at = text.index("{", text.index("\nmrd_seqset_has(")) + 1
    bad = 0
    for what, new, want in (("nothing", " ", ("equivalent", "the compiler")),
                            ("little", " __asm__ volatile(\"nop\");", ("survived", "")), ("no C", " no C;", ("did not compile", "")),
                            ("no end", " while (set != NULL) __asm__ volatile(\"\");", ("noticed", "aggregator/seqset (hang)"))):
        c = source.Change("planted", at, at, new, what, text.count("\n", 0, at) + 1)
        c.path, c.function, c.source = path, "mrd_seqset_has", "{"
        got = m.judge(c)
        say(f"planted {what}: {' by '.join(g for g in got if g)}" + ("" if got == want else f", expected {want}"))
        bad += got != want
    return 1 if bad else 0


def table(modules, reasons):
    columns = ("did not compile", "equivalent", "noticed", "survived")
    say(f"\n{'module':12}{'tried':>8}" + "".join(f"{c:>17}" for c in columns) + f"{'share':>8}")
    for m in modules:
        say(f"{m.name:12}{sum(m.counts.values()):>8}" + "".join(f"{m.counts.get(c, 0):>17}" for c in columns) +
            f"{100 * m.share():>7.0f}%")
    left = [c for m in modules for c in m.survivors]
    if left:
        say("\nsurvived:")
    for c in left:
        say(f"  {c}" + (f"\n    known: {reasons[c.key()]}" if c.key() in reasons else ""))


def arguments():
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("--mutants", default="16")
    p.add_argument("--seed", default="")
    p.add_argument("--modules", default=",".join(MODULES))
    p.add_argument("--work", default=os.path.join(ROOT, "build-mutants"))
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--at", default="")
    p.add_argument("--plain", action="store_true")
    p.add_argument("--check", action="store_true")
    p.add_argument("--check-runner", action="store_true")
    p.add_argument("--list", action="store_true")
    a = p.parse_args()
    a.mutants = a.mutants if a.mutants == "all" else int(a.mutants)
    a.seed = a.seed or str(random.SystemRandom().randrange(1 << 32))
    return a


def main():
    a = arguments()
    if a.check:
        return check()
    equivalent, bad = read_list("equivalent.txt")
    survivors, wrong = read_list("survivors.txt")
    bad += wrong
    for line in bad:
        say(line)
    say(f"seed {a.seed}: again with `make mutants SEED={a.seed} MUTANTS={a.mutants}`")
    trees, modules = [Tree(a.work, a.jobs)] + ([] if a.plain else [Tree(a.work, a.jobs, sanitize=True)]), []
    if not a.list:
        held = lock(a.work) # noqa: F841
        trees[0].copy()
    try:
        if a.check_runner:
            return check_runner(trees)
        for name in a.modules.split(","):
            m = Module(name, trees)
            chosen = m.choose("all" if a.at else a.mutants, a.seed)
            if a.at:
                file, _, line = a.at.partition(":")
                chosen = [c for c in chosen if c.path == file and line in ("", str(c.line))]
            if a.list:
                for c in chosen:
                    say(" ## ".join(c.key()))
                continue
            if chosen:
                m.go(chosen, equivalent)
                modules.append(m)
    finally:
        for tree in trees:
            shutil.rmtree(tree.tmp, ignore_errors=True)
    if not a.list:
        table(modules, survivors)
    return 0 if all(m.share() >= GOAL for m in modules) and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
