"""The commands of a document, run in their order in one shell, against the output that the document shows. Arguments: documents, below the
root of the sources.

A block ```sh is run, and must end with status 0; ```sh not-run is not run. A block ```text after it is its output, where `...` stands for any text.
Blanks and line ends may differ, and so may each word with a digit, which is a value, together with its unit. ```text exact compares these, too."""
import os
import re
import signal
import subprocess
import sys

from lib import BIN, SOURCE, check, finish, need_daemons, tmp

UNITS = r"(?:ns|us|ms|s|min|hours?|%|[kMG]i?B|B|ppm)"


def steps(document):
    """[(commands, output shown or None, whether values count)]"""
    with open(os.path.join(SOURCE, document), encoding="utf-8") as f:
        found = re.findall(r"^```([^\n]*)\n(.*?)^```$", f.read(), re.S | re.M)
    ran = []
    for kind, text in found:
        if kind == "sh":
            ran.append([text, None, False])
        elif kind in ("text", "text exact") and check(ran and ran[-1][1] is None, f"{document}: output without a command: {text[:60]!r}"):
            ran[-1][1:] = [text, kind == "text exact"]
    check(ran, f"{document}: no commands")
    return ran


def plain(text, exact):
    if exact:
        return re.sub(r"[ ]+$", "", text, flags=re.M)
    text = re.sub(r"[^\s()]*\d[^\s(),;:]*", "#", text)
    text = re.sub(rf"#(?:\s+{UNITS}\b|\s+%|\s+#)*", "#", text)
    return re.sub(r"\s+", " ", text).strip()


def matches(shown, output, exact):
    parts = re.split(r"\n\.\.\.\n|\.\.\.", "\n" + shown)
    text = r"\s*" + r".*".join(r"\s*" + re.escape(plain(part, exact).strip()) + r"\s*" for part in parts)
    return re.fullmatch(text, plain(output, exact), re.S) is not None


def run(document):
    work, blocks = tmp(), steps(document)
    script = "".join(f"echo '@@{n}'\n{commands}" for n, (commands, _, _) in enumerate(blocks)) + f"echo '@@{len(blocks)}'\n"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "SIMNRT_"))}
    env.update(SRC=SOURCE, PATH=f"{BIN}:{os.environ['PATH']}", LIBMERIDIAN=os.path.join(os.path.dirname(BIN), "lib", "libmeridian.so"))
    with open(os.path.join(work, "output"), "w+") as out:
        shell = subprocess.Popen(["bash", "-e", "-c", script], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            shell.wait(300)
        except subprocess.TimeoutExpired:
            check(False, f"{document}: the commands take longer than 300 s")
        finally:
            try:
                os.killpg(shell.pid, signal.SIGTERM)  # what they left in the background
            except ProcessLookupError:
                pass
        out.seek(0)
        said = re.split(r"(?m)^@@(\d+)\n", out.read())
    outputs = dict(zip(map(int, said[1::2]), said[2::2]))
    for n, (commands, shown, exact) in enumerate(blocks):
        if not check(n + 1 in outputs, f"{document}: fails: {commands}{outputs.get(n, '')[-1500:]}"):
            break
        if shown is not None:
            check(matches(shown, outputs[n], exact), f"{document}: {commands}prints something else:\n{outputs[n][-3000:]}")


need_daemons()
for name in sys.argv[1:]:
    run(name)
finish()
