"""The commands of documents, run in their order in one shell, against the output that the documents show. Arguments: documents, below the
root of the sources. Option --own-network: first enter a network of its own, so that the documents can use the default ports.

A block ```sh is run, and must end with status 0; ```sh not-run is not run. A block ```text after it is its output, where `...` stands for any text.
Blanks and line ends may differ, and so may each word with a digit, which is a value, together with its unit. ```text exact compares these, too.
A block of another kind, such as ```console, is not compared."""
import os
import re
import signal
import subprocess
import sys

from lib import BIN, SOURCE, check, finish, need_daemons, skip, tmp

UNITS = r"(?:ns|us|ms|s|min|hours?|%|[kMG]i?B|B|ppm)"


def steps(document):
    """[(commands, output shown or None, whether values count)]"""
    with open(os.path.join(SOURCE, document), encoding="utf-8") as f:
        found = re.findall(r"^( *)```([^\n]*)\n(.*?)^ *```$", f.read(), re.S | re.M)
    ran = []
    for indent, kind, text in found:
        text = re.sub(f"^{indent}", "", text, flags=re.M)
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


def run(documents):
    work = tmp()
    blocks = [(document, *step) for document in documents for step in steps(document)]
    script = "".join(f"echo '@@{n}'\n{commands}" for n, (_, commands, _, _) in enumerate(blocks)) + f"echo '@@{len(blocks)}'\n"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MERIDIAN_", "NEURON_", "SIMNRT_"))}
    rings = os.path.join(work, "rings")  # an agent of the documents reads no other test's rings
    os.mkdir(rings)
    env.update(SRC=SOURCE, PATH=f"{BIN}:{os.environ['PATH']}", LIBMERIDIAN=os.path.join(os.path.dirname(BIN), "lib", "libmeridian.so"), MERIDIAN_RING_DIR=rings)
    with open(os.path.join(work, "output"), "w+") as out:
        shell = subprocess.Popen(["bash", "-e", "-c", script], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            shell.wait(200)
        except subprocess.TimeoutExpired:
            check(False, f"{documents}: the commands take longer than 200 s")
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)  # also the programs that they left in the background
            except ProcessLookupError:
                pass
        out.seek(0)
        said = re.split(r"(?m)^@@(\d+)\n", out.read())
    outputs = dict(zip(map(int, said[1::2]), said[2::2]))
    for n, (document, commands, shown, exact) in enumerate(blocks):
        if not check(n + 1 in outputs, f"{document}: fails: {commands}{outputs.get(n, '')[-1500:]}"):
            break
        if shown is not None:
            check(matches(shown, outputs[n], exact), f"{document}: {commands}prints something else:\n{outputs[n][-3000:]}")


need_daemons()
arguments = sys.argv[1:]
if arguments[0] == "--own-network":
    words = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-r", "-n"]
    if subprocess.run([*words, "ip", "link", "set", "lo", "up"], capture_output=True).returncode != 0:
        skip("a network of its own cannot be made here")
    os.execvp("unshare", [*words, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, __file__, *arguments[1:]])
run(arguments)
finish()
