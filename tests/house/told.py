"""No sentence names a command or an option that does not exist: every `meridian …`, `meridian-agent …` and `meridian-aggregator …` command line
of the README, the documentation, the help texts, the messages in the sources, units and manifests is held against what the built programs take,
and so is every option that stands alone in a sentence.

Usage: told.py [FILE]...: all of ours without FILE. Needs the built programs (MERIDIAN_BUILD)."""
import os
import re
import subprocess
import sys

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
BIN = os.path.join(BUILD, "bin")
PROGRAMS = ("meridian", "meridian-agent", "meridian-aggregator", "meridian-webhook")
SOURCES = (".c", ".h", ".def")
READ = SOURCES + (".md", ".py", ".sh", ".js", ".html", ".json", ".yaml", ".yml", ".service", ".conf", ".env", ".toml", ".conf", ".in", ".txt")
LEFT_OUT = ("tests/", ".ci/", "cmake/")  # what tests pass on purpose is wrong at times

# What stands around "meridian" where it is no command line: a name of something else.
NO_COMMAND = re.compile(r"""import\ meridian|-n\ meridian|-u\ meridian\ meridian$|--namespace[= ]meridian|/meridian\ is\ |meridian\ module|meridian\ itself|…/bin/meridian\ to
                            |install\ .*-[og]\ meridian|install\.sh\ \w+\ \S*/meridian|%s\ meridian|meridian\ is\ None|meridian_program|the\ runtime's\ text|meridian\ system\ trace\ |meridian\ version\ |meridian\ (csv|tables)
                            |\ +meridian\ {2,}|meridian\ journal\ |sudo\ -u\ meridian\ meridian|table=|\ \ meridian\ events""", re.X)
# Options of other programs, which sentences of ours name; those of the vendor's viewer are in cli/vendor_words.def.
# a, b and x stand for any.
FOREIGN = set("a b x no-x build test-dir output-on-failure preset cflags libs libs-only-L no-as-needed as-needed filter system-trace-filter ingest-only data-path watch-confined wrap".split())
# Sources that hand options to other programs, or are other programs.
OTHERS = ("examples/", "bench/", "cli/vendor_words.def", "cli/demo/demo_nodes.c", "timesync/clockplot.c", "deploy/slurm/spank_meridian.c")

failures, found, alone = [], 0, 0


def run(*command):
    got = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if got.returncode != 0:
        print(f"FAILED {' '.join(command)}: status {got.returncode}: {got.stderr}")
        sys.exit(1)
    return got.stdout


def options(*program):
    """{what may be written behind the program: --name, -l}"""
    long = {w.rstrip("=") for w in run(*program, "--help=options").split() if w.startswith("-")}
    text = run(*program, "--help")
    if os.path.basename(program[0]) != "meridian":  # a daemon
        long |= set(re.findall(r"^ +(--advanced\.[\w-]+)", run(*program, "--help=advanced"), re.M))
    return long | {"--help", "--version"} | set(re.findall(r"^ +(-\w), *--", text, re.M)) | {"--no-" + w[2:] for w in long}


COMMANDS = [w for w in run(os.path.join(BIN, "meridian"), "--help=options").split() if not w.startswith("-")]
TAKES = {("meridian", c): options(os.path.join(BIN, "meridian"), c) for c in COMMANDS}
TAKES[("meridian", None)] = options(os.path.join(BIN, "meridian"))
for p in PROGRAMS[1:]:
    TAKES[(p, None)] = options(os.path.join(BIN, p))
LOOP = re.findall(r"--[a-z][\w-]*", subprocess.run([os.path.join(BIN, "train_loop"), "--help"], capture_output=True, text=True, timeout=60).stdout)
ANY = set().union(*TAKES.values(), LOOP)


def texts(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return parts(path, f.read())


def parts(path, text):
    """[(line, text)]: of a source its strings (those that follow each other as one) and its comments, of anything else all."""
    if not path.endswith(SOURCES):
        # a command goes on behind a backslash
        return [(1, text.replace("\\\n", " \r"))]
    out = []
    for m in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*|/\*.*?\*/', text, re.S):
        t = m.group(0)
        t = re.sub(r"\n\s*\* ?", " ", t) if t.startswith("/*") else re.sub(r'"\s*(?:PRI\w+\s*)?"', "", t[1:-1]).replace("\\n", "\n").replace('\\"', '"')
        out.append((text.count("\n", 0, m.start()) + 1, t))
    return out


def fail(where, what):
    failures.append(f"{where}: {what}")


def judge_line(where, program, rest, before):
    """rest: what stands behind the name of the program, up to where a command line ends."""
    global found
    words = rest.split()
    command = None
    if program == "meridian":
        if not words or NO_COMMAND.search(before[-40:] + program + " " + " ".join(words[:2]) + " "):
            return
        word = re.sub(r"[^\w-].*$", "", words[0])
        if words[0].startswith("-"):
            command = None
        elif word == "help": # `meridian help COMMAND` is `meridian COMMAND --help`
            return
        elif word in COMMANDS:
            command = word
            words = words[1:]
        else:
            if re.match(r"^[a-z]", words[0]):
                fail(where, f"there is no command: {program}{rest[:60]}")
            return
    elif not words or not any(w.lstrip("[").startswith("-") for w in words):
        return
    found += 1
    for word in words:
        if word == "--":
            return  # another program's
        m = re.match(r"^[\[(]*(--?(?:no-)?(?:advanced\.)?[A-Za-z][\w-]*)", word)
        if m is None:
            continue
        name = m.group(1).rstrip("-")
        if not name.startswith("--"):
            name = name[:2]
        if name not in TAKES[(program, command)]:
            fail(where, f"{program}{' ' + command if command else ''} has no option {name}")


def lines(text, end):
    return text.count("\n", 0, end) + text.count("\r", 0, end)


def judge(path, line, text):
    global alone
    shown = os.path.relpath(path, ROOT)
    taken = []
    for m in re.finditer(r"(?<![\w.@:=-])((?:[\w./$\"{}-]*/)?)(meridian-agent|meridian-aggregator|meridian-webhook|meridian)(?![\w./:@=*-]|\.\w)([^\n`;|<>#\"']*)", text):
        begin = text.rfind("\n", 0, m.start()) + 1
        rest = re.split(r"(?<=\w)[.,:)](?:\s|$)|\s&|\(", m.group(3))[0]
        where = f"{shown}:{line + lines(text, m.start())}"
        judge_line(where, m.group(2), rest, text[begin:m.start(2)])
        taken.append(m.span())
    # Options that stand alone, as sentences have them.
    if not path.endswith(SOURCES + (".md",)) or shown.startswith(OTHERS):
        return
    prose = re.sub(r"```.*?```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    for m in re.finditer(r"(?:^|(?<=[\s`(]))(--(?:no-)?(?:advanced\.)?[a-z][\w-]*)", prose):
        begin, end = prose.rfind("\n", 0, m.start()) + 1, prose.find("\n", m.start())
        near = prose[max(begin, m.start() - 120):m.start()]
        if any(s <= m.start() < e for s, e in taken) and prose == text:
            continue
        name = m.group(1).rstrip("-")
        alone += 1
        if name not in ANY and name[2:] not in FOREIGN and not re.search(
                r"(cmake|ctest|gdb|git|neuron-\w+|neuron|nobs|kubectl|helm|docker|podman|srun|sbatch|openssl|babeltrace2|perfetto|clang\S*|scripts/\S+|tests/\S+|bench\w*|nccom-test|make|npm|pip|"
                r"python3?|\w+\.py|ld|gcc|strace|curl|systemctl|train_loop|groff|unshare|nsenter|\.ci/run|clocklab\S*|mutants\S*|conform\S*)\b", near):
            fail(f"{shown}:{line + prose.count(chr(10), 0, m.start())}", f"no program of ours has an option {name}: {prose[begin:end if end > 0 else None].strip()[:100]}")


PLANTED = [("x.md", "Stop it: `meridian halt latest`.", 1), ("x.md", "```sh\nmeridian stop latest --soon\n```", 1), ("x.md", "as `--keep-for` says", 1),
           ("x.c", '/* `meridian session`\'s part */ f("other processes: `meridian st" "art --core 0` or "\n "`meridian arm`");', 2),
           ("x.md", "meridian-agent --spool-dir d \\\n  --spool x", 1), ("x.md", "`meridian start --core 0-3 --keep 1s`, -d of `meridian record -d 3s`; `meridian inspect -- ls --all`", 0)]


def planted():
    """What is wrong on purpose is found, and only that."""
    for name, text, want in PLANTED:
        del failures[:]
        for line, part in parts(name, text):
            judge(os.path.join(ROOT, name), line, part)
        if len(failures) != want:
            print(f"FAILED planted: {text!r}: {len(failures)} found, {want} are there: {failures}")
            return False
    del failures[:]
    return True


def main():
    if not planted():
        return 1
    given = [os.path.abspath(a) for a in sys.argv[1:]]
    files = given or [os.path.join(ROOT, f) for f in subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True,
                                                                   text=True, check=True).stdout.split("\n")
                      if f.endswith(READ) and not f.startswith(LEFT_OUT) and os.path.exists(os.path.join(ROOT, f))]
    for path in files:
        for line, text in texts(path):
            judge(path, line, text)
    for key in TAKES if not given else ():
        program = [os.path.join(BIN, key[0])] + ([key[1]] if key[1] else [])
        judge(os.path.join(ROOT, " ".join(w for w in key if w) + " --help.md"), 1, run(*program, "--help"))
    for text in failures:
        print("FAILED", text)
    if not given and (found < 150 or alone < 150):
        failures.append("too few")
        print(f"FAILED too little was found to be a check: {found} command lines, {alone} options")
    print(f"{found} command lines and {alone} single options, {len(failures)} that do not exist")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
