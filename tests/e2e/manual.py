"""Tests that manual pages and completions agree with the programs. Every option of the help must be
in the page and must be completed, and troff must report no errors in a page."""
import os
import re
import shutil
import subprocess

from lib import BIN, SOURCE, check, equal, finish


def out(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def words(*command):
    got = out(*command, "--help=options")
    equal((got.returncode, got.stderr), (0, ""), f"{command} --help=options")
    return got.stdout.split()


def completed(line):
    """What bash completes behind this line."""
    script = f"""source {SOURCE}/deploy/completion/meridian.bash
COMP_WORDS=({line.rstrip()}{' ""' if line.endswith(" ") else ""}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); compopt() {{ :; }}
_meridian; printf '%s\n' "${{COMPREPLY[@]}}" """
    return out("bash", "-c", script, env={**os.environ, "PATH": BIN + os.pathsep + os.environ["PATH"]}).stdout.split()


commands = [w for w in words(os.path.join(BIN, "meridian")) if not w.startswith("-")]
check(len(commands) > 10 and "view" in commands, f"commands: {commands}")
programs = [[os.path.join(BIN, "meridian"), c] for c in commands] + [[os.path.join(BIN, p)] for p in ("meridian-agent", "meridian-aggregator")]
for program in programs:
    page, text, flags = out(*program, "--help=man").stdout, out(*program, "--help").stdout, words(*program)
    shown = set(re.findall(r"^ +(?:-\w, )? *--([\w-]+)", text, re.M))
    equal({f.strip("-=").replace("=", "") for f in flags}, shown, f"{program}: options that are completed, and those of the help")
    for name in shown:
        check(r"\fB\-\-" + name.replace("-", r"\-") + r"\fR" in page, f"{program}: the page has --{name}")
    advanced = re.findall(r"^ +--(\S+)", out(*program, "--help=advanced").stdout, re.M)
    check(not any("advanced" in flag for flag in flags) and all(name.startswith("advanced.") for name in advanced), f"{program}: advanced options {advanced}")
    equal(len(advanced) > 0, program[-1].endswith(("-agent", "-aggregator", "doctor")), f"{program} has advanced options")
    if shutil.which("groff"):
        drawn = out("groff", "-man", "-Tutf8", "-ww", input=page)
        equal((drawn.returncode, drawn.stderr), (0, ""), f"{program}: what troff says of its page")
daemons = [os.path.join(BIN, p) for p in ("meridian-agent", "meridian-aggregator")]
check(sum(len(words(p)) for p in daemons) <= 70, "the daemons' help is short enough to be read: a rare option is an advanced one")
equal(set(completed("meridian ")) , set(words(os.path.join(BIN, "meridian"))), "commands are completed")
equal(completed("meridian vi"), ["view"], "a command is completed")
check("--output-format=" in completed("meridian view --out"), f"an option is completed: {completed('meridian view --out')}")
check("--aggregator=" in completed("meridian-agent --aggr"), "of the agent too")
finish()
