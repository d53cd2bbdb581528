"""The rules of the house that a program can check: who may include whom, no circles, headers that compile alone, third-party
headers where docs/dev/dependencies.md says, one prefix for external names, the field's words. CONTRIBUTING.md explains them.
Usage: rules.py [rule ...]; prints each breach with its place and what to do."""
import ast
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
FOLDERS = ("base", "trace", "capture", "hw", "sim", "timesync", "pki", "proto", "httpd", "agent", "aggregator", "webhook", "cli")
breaches = []


def breach(place, message):
    breaches.append(f"{place}: {message}")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def sources(*endings):
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(at, name), ROOT)


def sources_and_tests(*endings):
    """sources(), and what stands in tests/, bench/ and examples/."""
    yield from sources(*endings)
    for path in subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "tests", "bench", "examples"], capture_output=True, text=True).stdout.split("\n"):
        if path.endswith(endings):
            yield path


def stem(path):
    return re.sub(r"\.(c|h|def)$", "", path)


def includes(path):
    """(line number, path) of each header of ours that a file includes."""
    for n, line in enumerate(read(path).splitlines(), 1):
        m = re.match(r'\s*#include "([^"]+)"', line)
        if m:
            yield n, m.group(1)


# ---- Modules, as CMake has them ----

def modules():
    """{name: (set of stems, set of direct dependencies)} of every mrd_module and mrd_program."""
    found = {}
    for at, _, names in os.walk(ROOT):
        rel = os.path.relpath(at, ROOT)
        if "CMakeLists.txt" not in names or rel.split(os.sep)[0] not in FOLDERS:
            continue
        text = re.sub(r"#.*", "", read(os.path.join(rel, "CMakeLists.txt")))
        for name, body in re.findall(r"mrd_(?:module|program)\(\s*([\w-]+)(.*?)\)", text, re.S):
            words, part = body.split(), None
            files, depends = set(), set()
            for word in words:
                if word in ("SOURCES", "DEPENDS", "LIBS"):
                    part = word
                elif part == "SOURCES" and word.endswith(".c") and "$" not in word:
                    files.add(stem(os.path.normpath(os.path.join(rel, word))))
                elif part == "DEPENDS":
                    depends.add(word)
            found[name] = (files, depends)
    found["trace"] = (set(), {"trace_import", "trace_sink"})
    return found


def closure(all_modules, name, seen=None):
    seen = set() if seen is None else seen
    if name not in seen:
        seen.add(name)
        for d in all_modules.get(name, (set(), set()))[1]:
            closure(all_modules, d, seen)
    return seen


def rule_layers():
    """A source includes only headers of its own module, of modules it depends on (CMake's DEPENDS), or, for headers without a
    source of their own, of a folder in which such a module stands."""
    mods = modules()
    owner = {f: name for name, (files, _) in mods.items() for f in files}
    folder_of = collections.defaultdict(set)
    for f, name in owner.items():
        folder_of[os.path.dirname(f)].add(name)
    for path in sources(".c", ".h"):
        mine = owner.get(stem(path))
        if mine is None and path.startswith(("capture/", "sim/nrt/")):
            continue  # guests in other programs, built by hand: what they are made of stands in their CMakeLists.txt
        near = {mine} if mine else folder_of.get(os.path.dirname(path), set())
        if not near:
            continue  # built by hand in its CMakeLists.txt
        allowed = set().union(*(closure(mods, name) for name in near))
        for n, header in includes(path):
            if os.path.dirname(header) == os.path.dirname(path) or not os.path.exists(os.path.join(ROOT, header)):
                continue
            theirs = {owner[stem(header)]} if stem(header) in owner else folder_of.get(os.path.dirname(header), set())
            if theirs and not theirs & allowed and (path, header) not in EDGES:
                breach(f"{path}:{n}", f"includes {header} of {'/'.join(sorted(theirs))}, which {'/'.join(sorted(near))} does not depend on: "
                       "move what is shared down, or name the dependency in CMakeLists.txt")


# Types that cross without code: the layout of the ring, and of what a clock reading holds.
EDGES = {("agent/rings/drain.h", "capture/ring/ring_read.h")}


# ---- Circles ----

def components(graph):
    """Strongly connected sets of more than one node (Tarjan, without recursion)."""
    index, low, on, stack, out, counter = {}, {}, set(), [], [], 0
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = counter
        counter += 1
        stack.append(root)
        on.add(root)
        while work:
            node, it = work[-1]
            for to in it:
                if to not in index:
                    index[to] = low[to] = counter
                    counter += 1
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(graph.get(to, ()))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = set()
                    while True:
                        x = stack.pop()
                        on.discard(x)
                        part.add(x)
                        if x == node:
                            break
                    if len(part) > 1:
                        out.append(part)
    return out


def rule_circles():
    """No two units (x.c, x.h and its private x_int.h or x_impl.h) include each other, by whatever way."""
    unit = lambda path: re.sub(r"_(int|impl)$", "", stem(path))
    graph = collections.defaultdict(set)
    for path in sources(".c", ".h"):
        graph[unit(path)]
        for _, header in includes(path):
            if unit(header) != unit(path) and os.path.exists(os.path.join(ROOT, header)):
                graph[unit(path)].add(unit(header))
    for part in sorted(components(graph), key=lambda p: sorted(p)):
        breach(sorted(part)[0], f"stands in a circle of includes with {', '.join(sorted(part)[1:])}: take out what both need")


FOLDER_MAX = 40


def rule_rooms():
    """Folders stand on floors: no folder includes one that includes it, by whatever way. None has too many files."""
    graph = collections.defaultdict(set)
    for path in sources(".c", ".h"):
        for _, header in includes(path):
            a, b = os.path.dirname(path), os.path.dirname(header)
            if a != b and b.split(os.sep)[0] in FOLDERS:
                graph[a].add(b)
                graph[b]
    for part in components(graph):
        breach(sorted(part)[0], f"is in a circle of folders with {', '.join(sorted(part)[1:])}")
    files = collections.Counter(os.path.dirname(path) for path in sources(".c", ".h", ".def"))
    for folder, count in sorted(files.items()):
        if count > FOLDER_MAX:
            breach(folder, f"has {count} files, more than {FOLDER_MAX}: make a room of those that belong together")


# ---- Headers ----

def rule_headers():
    """Each header compiles alone and says in its first lines what it is for."""
    unit = []
    for path in sources(".h"):
        text = read(path)
        if not re.match(r"/\*(\n \*)? " + re.escape(path) + r" - \S", text) and path not in ("capture/meridian.h",):
            breach(f"{path}:1", f"begins without its line of purpose: ' * {path} - what it is for.'")
        unit.append(path)
    for path in unit:
        got = subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-D_GNU_SOURCE=1", '-DMRD_RELEASE="x"', "-I", ROOT, "-I", os.path.join(BUILD, "generated"),
                              "-x", "c", "-include", os.path.join(ROOT, path), "/dev/null"], capture_output=True, text=True)
        if got.returncode != 0:
            breach(f"{path}:1", f"does not compile alone: {got.stderr.strip().splitlines()[0] if got.stderr.strip() else got.returncode}")


def rule_purposes():
    """A source says in its first line what it is for, or begins with its own header, which does."""
    for path in sources(".c"):
        text = read(path)
        first = re.search(r'^#include [<"]([^">]+)[">]', text, re.M)
        if not text.startswith("/*") and not (first and re.sub(r"_(int|impl)\.h$", ".h", first.group(1)) == stem(path) + ".h"):
            breach(f"{path}:1", "begins neither with a line of purpose, '/* what it is for. */', nor with its own header")


# ---- Third-party headers ----

LIBRARIES = {"nng/": "NNG", "openssl/": "OpenSSL", "protobuf-c/": "protobuf-c", "zstd.h": "zstd", "zlib.h": "zlib", "jansson.h": "jansson",
             "microhttpd.h": "libmicrohttpd", "gnutls/": "GnuTLS", "curl/": "libcurl", "sqlite3.h": "SQLite"}


def rule_dependencies():
    """A third-party header is included only by sources that docs/dev/dependencies.md names."""
    named = set()
    for word in re.findall(r"`([\w/*.]+)`", read("docs/dev/dependencies.md")):
        named.add(word)
    def is_named(path):
        return any(path == w or (w.endswith("/") and path.startswith(w)) or ("*" in w and re.fullmatch(w.replace(".", r"\.").replace("*", ".*"), path)) for w in named)
    for path in sources(".c", ".h"):
        for n, line in enumerate(read(path).splitlines(), 1):
            m = re.match(r"\s*#include <([^>]+)>", line)
            if m and any(m.group(1).startswith(k) for k in LIBRARIES) and not is_named(path):
                breach(f"{path}:{n}", f"includes <{m.group(1)}>, which docs/dev/dependencies.md does not allow it: call the file that has it, or add it there with the reason")


# ---- Names ----

FOREIGN = {  # objects whose names others have chosen: why
    "sim/nrt/": "the runtime's library",
    "sim/simclock_preload.c": "stands in front of the C library",
    "capture/nrt/nrt_real.c": "dlsym, which it stands in front of",
    "proto/nng/refused.c": "two functions of NNG, which it stands in front of",
}


def rule_names():
    """External names carry the prefix mrd_ (types and functions of the messages: mrd__, by their generator)."""
    commands = os.path.join(BUILD, "compile_commands.json")
    if not os.path.exists(commands):
        print("names: skipped, nothing is built in", BUILD)
        return
    with open(commands, encoding="utf-8") as f:
        built = {os.path.relpath(one["file"], ROOT): os.path.join(one["directory"], re.search(r" -o (\S+)", one["command"]).group(1)) for one in json.load(f)}
    ours = {made: path for path, made in sorted(built.items())
            if path.startswith(tuple(folder + "/" for folder in FOLDERS)) and not path.startswith(tuple(FOREIGN)) and os.path.exists(made)}
    got = subprocess.run(["nm", "-A", "-g", "--defined-only", *ours], capture_output=True, text=True).stdout
    for made, symbol in sorted(set(re.findall(r"^(.*):[0-9a-f]+ [A-TV-Z] (\w+)$", got, re.M))):
        if not re.match(r"_?mrd_|main$|nrt(a\d?)?_|__(asan|ubsan|tsan|odr)|_\.stapsdt", symbol):
            breach(ours[made], f"external name {symbol} without the prefix mrd_")


# Where names of the release before are read or told: the table of the code, that of docs/reference/http.md, and the tests of both.
RENAMED = r'^    \{ "|^\| .*`.* \| .*`.* \||\\"|"not heard of any more before everything had arrived"'
WORDS = [  # (words, where they are a name of something else, what the field says)
    (r"roads?", None, "data source, capture path; of probes: transport"),
    (r"wakers?", None, "warm-up packet"),
    (r"tree of winners", None, "tournament tree"),
    (r"untold|dawdlers?|strangers?", None, "unreported; slow client; unauthenticated peer, or 'from outside'"),
    (r"polygons?", None, "feasible set"),
    (r"expo", None, "metrics"),
    (r"\w*wish(es)?|triggerWish", None, "request"),
    (r"\w*heard", RENAMED, "received, seen, reported; of triggers: unacknowledged"),
    (r"tied_by|stop_wanted|\w+_sentence", RENAMED, "linked_by, stop_requested, message"),
    (r"\w*offer(s|ed|ing|_\w+)?|\w*(RuntimeOffer|ArtifactOffer|ArtifactWant)|MRD_FRAME_WANT", None, "announce, request (artifacts); features (of a runtime); send"),
    (r"(?!piecewise)\w*piece\w*", RENAMED, "chunk (of bytes), fitted segment (of a clock), bucket (of time), task"),
    (r"\w*_(life|lives)|(life|lives)_\w+|(life|lives) of the (aggregator|agent|folder)", RENAMED, "incarnation, run; lifecycle"),
    (r"settles?|settled|\w+_settled?|\w*trouble(?!shooting)\w*|\w+_noted", None, "complete, finish, converge; error, failure; saved, recorded, reported"),
    (r"[\"`]sentence[\"`]|(char|->) ?\*?sentence", RENAMED, "message"),
]


def rule_words():
    """Words that the field does not use, in sources, tests and documents (docs/reference/glossary.md has those that it does)."""
    files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True).stdout.split("\n")
    words = [(re.compile(rf"\b({word})\b", re.I), unless, field) for word, unless, field in WORDS]
    for path in files:
        if not re.search(r"\.(c|h|def|md|js|mjs|py|proto|sh|yml|cmake|txt)$", path) or path == "tests/house/rules.py":
            continue
        text = read(path)
        for word, unless, field in words:
            for m in word.finditer(text):
                line = text[text.rfind("\n", 0, m.start()) + 1:].split("\n", 1)[0]
                if not (unless and re.search(unless, line)):
                    breach(f"{path}:{text.count(chr(10), 0, m.start()) + 1}", f"'{m.group(1)}': the field says {field}")


MESSAGES = [  # (words in a message of a program, what to say instead)
    (r"nobody|somebody|whoever", "name the program or the user: the aggregator, an agent, a client"),
    (r"told(?! apart)|noted|heard", "sent to, reported, recorded, acknowledged"),
    (r"speaks? no|hangs up|takes? no|wants? (a|an|the|to)|one word too many|stay unseen", "say what is expected and what was found"),
]
SPOKEN = ("trace/sink/report/sink_report_text.c", "cli/view/align.c", "cli/demo/demo_report.c")  # of people, or of ranks, as definitions have them


def rule_messages():
    """A message says which program did what to which object: no riddles in the strings of the sources."""
    for path in sources(".c", ".def"):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), read(path), flags=re.S)
        for m in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s+"(?:[^"\\\n]|\\.)*")*', text) if path not in SPOKEN else ():
            said = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', m.group(0)))
            for words, instead in MESSAGES:
                hit = re.search(rf"\b({words})\b", said)
                if hit and " " in said:
                    breach(f"{path}:{text.count(chr(10), 0, m.start()) + 1}", f"message with '{hit.group(1)}': {instead}")


# ---- One name, one meaning ----

GUESTS = ("sim/nrt/",)  # a library of another vendor, with that vendor's names


def defined_types(path):
    """Names of types that a source defines, or declares as opaque in a header, and of functions inline in a header."""
    text = re.sub(r"/\*.*?\*/", " ", read(path), flags=re.S)
    yield from re.findall(r"^\}\s*(?:__attribute__\(\([^;]*?\)\)\s*)?(\w+);", text, re.M)
    yield from re.findall(r"^(?:typedef\s+)?(?:struct|union|enum)\s+(\w+)\s*\{", text, re.M)
    yield from re.findall(r"^typedef\s+(?!struct|union|enum)[^;{]*?\(?\*?(\w+)\)?(?:\([^;]*\))?;", text, re.M)
    if path.endswith(".h"):
        yield from re.findall(r"^typedef\s+struct\s+\w+\s+(\w+);", text, re.M)
        yield from re.findall(r"^static inline[^;{]*?\b(\w+)\(", text, re.M)


def rule_one_name():
    """A name with our prefix is one type, or one inline function, in the whole repository. A header and the source of the same unit
    share theirs: one declares it, the other defines it."""
    where = collections.defaultdict(set)
    headers = collections.defaultdict(set)
    for path in sources(".c", ".h"):
        for name in defined_types(path) if not path.startswith(GUESTS) else ():
            if name.startswith("mrd_"):
                (headers if path.endswith(".h") else where)[name].add(path)
    for name in sorted(set(where) | set(headers)):
        declared = sorted(headers[name])
        # A source defines what one header declares; two headers of one unit (x.h, x_int.h) may both name it.
        units = {re.sub(r"_(int|impl)$", "", stem(path)) for path in declared}
        homes = {os.path.dirname(unit) for unit in units}
        if len(units) > 1 and not forwards_only(name, declared):
            breach(declared[0], f"{name} is defined in {', '.join(declared[1:])} too: one name, one struct")
        for path in sorted(where[name]):
            if declared and not any((os.path.dirname(path) + "/").startswith(home + "/") for home in homes):
                breach(path, f"{name} is declared in {declared[0]}, of another folder: one name, one struct")
        if not declared and len(where[name]) > 1:
            breach(sorted(where[name])[1], f"{name} is defined in {sorted(where[name])[0]} too: one name, one struct")


def forwards_only(name, paths):
    """True when at most one of the headers has the body, and the others only say that it is a struct."""
    bodies = [path for path in paths if re.search(rf"^(?:typedef\s+)?struct\s+{name}\s*\{{|^\}}\s*{name};|^static inline[^;{{]*?\b{name}\(",
                                                  re.sub(r"/\*.*?\*/", " ", read(path), flags=re.S), re.M)]
    return len(bodies) == 1


# ---- One way each ----

ONE_WAY = [  # (pattern, who may, what to use instead)
    (r"\b(realloc|reallocarray)\s*\(", ("base/vec.c", "base/buf.c", "capture/", "sim/nrt/"), "base/vec.h grows arrays, mrd_buf bytes"),
    (r'\b(strstr|strncmp|mrd_str_starts)\([^;]*"((tls\+)?tcp|https?|inproc|ipc)?://', ("base/url.c", "httpd/http_parse.c", "agent/daemon/link_options.c", "cli/client/client.c"),
     "base/url.h takes addresses apart"),
    (r"\b(pthread_cond_init|pthread_condattr_init|PTHREAD_COND_INITIALIZER)\b", ("base/sys/threads.h",), "base/sys/threads.h makes conditions, whose deadlines nobody sets"),
]
# capture/ and sim/nrt/ are guests with the C library only; http_parse.c reads the Origin of a browser; link_options.c and client.c look
# whether a scheme is there at all, for their message.


def rule_one_way():
    """Arrays grow by base/vec.h, addresses are parsed by base/url.h: no source does it by hand."""
    for path in sources(".c", ".h"):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), read(path), flags=re.S)
        for pattern, who, instead in ONE_WAY:
            if not path.startswith(who):
                for m in re.finditer(pattern, text):
                    breach(f"{path}:{text.count(chr(10), 0, m.start()) + 1}", f"{m.group(1)}: {instead}")


# ---- Tests wait for conditions ----

SLEEPS = [  # (files, what pauses)
    (r"\.[ch]$", r"\b(usleep|nanosleep|clock_nanosleep|thrd_sleep|sleep)\s*\(|\b(poll)\s*\(\s*NULL\b|\b(select)\s*\(\s*0\s*,\s*NULL\b"),
    (r"\.py$", r"\b(time\.sleep|asyncio\.sleep)\b|\b(from time import)\b.*\bsleep\b|\b(select)\(\[\], \[\], \[\]"),
    (r"\.m?js$", r"\b(setTimeout|setInterval|waitForTimeout)\b"),
    (r"\.sh$|(^|/)run$", r"^[^#]*\b(sleep)\s+[\d$.]"),
]
WAITS = ("tests/wait.h", "tests/e2e/wait.py", "tests/e2e/wait.mjs", "tests/house/")
SLEEPERS = {  # whose text is the program of a workload
    "tests/e2e/slurm.py": "the job that runs for a while is Python in a string",
}


def without_comments(path, text):
    """The text with its comments blank and its lines where they were."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    if path.endswith((".c", ".h", ".js", ".mjs")):
        return re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", blank, text, flags=re.S)
    return text


def rule_sleeps():
    """No test pauses but by tests/wait.h and its sisters, which wait for a condition with a deadline, or say what else a pause is."""
    for path in subprocess.run(["git", "-C", ROOT, "ls-files", "tests"], capture_output=True, text=True).stdout.split("\n"):
        for files, pauses in SLEEPS:
            if not re.search(files, path) or path.startswith(WAITS) or path in SLEEPERS:
                continue
            for n, line in enumerate(without_comments(path, read(path)).splitlines(), 1):
                m = re.search(pauses, line)
                if m:
                    word = next(w for w in m.groups() if w)
                    breach(f"{path}:{n}", f"{word}: wait for a condition (tests/wait.h, tests/e2e/wait.py, tests/e2e/wait.mjs), or say by their names what the pause is")


# ---- What documents name ----

PLACES = FOLDERS + ("tests", "bench", "examples", "python", "scripts", "sql", "cmake", "docs", "deploy")
OTHERS_FILES = ("docs/ref/migrate/nng1.md", "docs/PROTOCOL.md")  # of nanomsg/nng, of aws/clock-bound
OTHERS_NAMES = ("MRD_THIRDPARTY", "mrd_collector_ident")  # of CMake; of any row
TEST_FOLDERS = ("conform", "e2e", "fleet", "fuzz", "house", "sim", "simnrt", "clocklab", "kubelab")


def test_names():
    """Of the build; none where there is none."""
    names = set()
    for at, _, files in os.walk(BUILD):
        if "CTestTestfile.cmake" in files:
            with open(os.path.join(at, "CTestTestfile.cmake"), encoding="utf-8") as f:
                names.update(re.findall(r"^add_test\(\[?=*\[?([^\]\s\"]+)", f.read(), re.M))
    return names


def rule_named():
    """A file, a function and a test that a document or a comment names exists; `x` in a name stands for any. Commands and options are house/told's."""
    tracked = set(subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True).stdout.split("\n")) - {""}
    there = tracked | {"/".join(parts[:n]) for parts in (t.split("/") for t in tracked) for n in range(1, len(parts))}
    bases, tests = {os.path.basename(t) for t in tracked}, test_names()
    words, code = set(), set()  # in comments too; without them
    for path in tracked:
        if path.endswith((".c", ".h", ".def", ".py", ".proto", "CMakeLists.txt")):
            words.update(re.findall(r"\b(?:mrd|MRD)_\w+", read(path)))
            code.update(re.findall(r"\b(?:mrd|MRD)_\w+", re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)))
    for doc in sorted(t for t in tracked if t.endswith(".md")):
        for n, line in enumerate(read(doc).splitlines(), 1):
            for word in re.findall(r"`([\w./-]+)`", line):
                top, known = word.split("/")[0], None
                if re.search(r"_x(\.|_|$)", word) or word in OTHERS_FILES:
                    continue
                if re.fullmatch(r"(?:mrd|MRD)_\w+", word):
                    known = word in words
                elif "/" in word and top in PLACES + TEST_FOLDERS:
                    near = [word.rstrip("/"), os.path.join(os.path.dirname(doc), word).rstrip("/")]
                    known = any(w in there or w + ".h" in there or w + ".c" in there for w in near) \
                        or any(t == word or word.endswith("/") and t.startswith(word) for t in tests) or not tests and "." not in word
                elif re.fullmatch(r"\w+\.[ch]", word):
                    known = word in bases
                if known is False:
                    breach(f"{doc}:{n}", f"names {word}, which does not exist")
    for path in sorted(t for t in tracked if t.endswith((".c", ".h", ".def"))):
        for comment in re.finditer(r"/\*.*?\*/", read(path), re.S):
            place = f"{path}:{read(path).count(chr(10), 0, comment.start()) + 1}"
            for word in re.findall(r"(?<![\w/.$}*-])((?:" + "|".join(PLACES) + r")/[\w/.-]*\w\.(?:c|h|def|md|py))\b", comment.group(0)):
                if word not in there and "_x." not in word and not word.endswith(".pb-c.h") and word not in OTHERS_FILES:
                    breach(place, f"names {word}, which does not exist")
            for word in re.findall(r"\b(?:mrd_\w*[a-z0-9]|MRD_\w*[A-Z0-9])\b", comment.group(0)):
                if word not in code and not word.endswith("_x") and word not in OTHERS_NAMES and not any(t.endswith(word[4:] + ".h") for t in tracked):
                    breach(place, f"names {word}, which does not exist")


# ---- What an addition touches (docs/dev/additions.md) ----

KINDS = [  # (kind, table, pattern of a row's identifier, what names it in other sources, its own files)
    ("importer", "trace/import/importers.def", r"^MRD_IMPORT\((\w+)\)", r"\bmrd_import_{0}\b|\bimport_{0}\.c\b|^MRD_IMPORT\({0}\)", r"trace/import/(\w+/)?import_{0}\.[ch]"),
    ("output format", "trace/sink/sinks.def", r"^MRD_SINK\((\w+)\)", r"\bmrd_sink_{0}\b|\bsink_{0}\.c\b|^MRD_SINK\({0}\)", r"trace/sink/(\w+/)?sink_{0}\.[ch]"),
    ("counter family", "hw/backends.def", r"^MRD_HW_BACKEND\((\w+)\)", r"\bmrd_hw_backend_{0}\b|\bhw_{0}\.c\b|^MRD_HW_BACKEND\({0}\)", r"hw/hw_{0}\.[ch]"),
    ("collector", "agent/daemon/collectors.def", r"^MRD_COLLECTOR\((\w+)\)", r"\bmrd_collector_{0}\b|\bcollect_{0}\.c\b|^MRD_COLLECTOR\({0}\)", r"agent/daemon/collect_{0}\.c"),
    ("command", "cli/commands.def", r"^MRD_COMMAND\((\w+),", r"\bmrd_cmd_{0}\b|\bcmd_{0}\.c\b|^MRD_COMMAND\({0},", r"cli/\w+/cmd_{0}\.[ch]"),
]


def rule_additions():
    """An addition of a kind touches at most three files beside its own and its test."""
    tree = {path: re.sub(r"/\*.*?\*/", "", read(path), flags=re.S) for path in subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True).stdout.split("\n")
            if re.search(r"\.(c|h|def|txt|cmake)$", path) and not path.startswith(("tests/", "bench/", "capture/"))}
    for kind, table, row, names, own in KINDS:
        for ident in re.findall(row, read(table), re.M):
            touched = sorted(path for path, text in tree.items()
                             if ident in text and re.search(names.format(ident), text, re.M) and not re.fullmatch(own.format(ident), path))
            if len(touched) > 3 or not touched:
                breach(table, f"{kind} {ident} is named in {len(touched)} files: {', '.join(touched)}; docs/dev/additions.md promises three at most")


# What carries a session's parameters from place to place: it names none of them.
CARRIERS = ("proto/session_params.c", "proto/session_params.h", "cli/client/session_options.c", "cli/client/cluster.c", "aggregator/api/http_body.c", "aggregator/loop/messages.c",
            "aggregator/core/decide/commands.c", "aggregator/core/manifest/manifest.c", "aggregator/core/manifest/manifest_load.c")


def rule_parameters():
    """A session's parameter is its row in proto/session_params.def and its use (docs/dev/additions.md)."""
    rows = re.findall(r'^MRD_PARAM\((\w+), \w+, "(\w+)", "(\w+)"', read("proto/session_params.def"), re.M)
    if not rows:
        breach("proto/session_params.def", "has no row that this rule can read")
    for path in CARRIERS:
        for n, line in enumerate(read(path).splitlines(), 1):
            for ident, request, manifest in rows:
                if re.search(rf"\bparams(\.|->){ident}\b", line) or \
                        "_" in request and request != "device_profiles" and re.search(rf'"({request}|{manifest})"', line):  # nodes have a list of that name
                    breach(f"{path}:{n}", f"names the session parameter {ident}: what carries parameters takes them from the table")


# ---- Instants and durations (base/clock.h) ----

BARE_TIMES = {  # (file or folder, member or None): why a bare number
    ("capture/meridian.h", None): "is installed alone, for programs of others",
    ("capture/ring/ring.h", None): "is memory shared with programs of other versions: integers and atomics as docs/reference/ring.md has them",
    ("capture/api/dump.c", None): "atomics, which one instruction exchanges",
    ("capture/api/objects.c", None): "atomics, as above; start is in ticks",
    ("sim/nrt/", None): "stands in for the runtime's library, which is not ours",
    ("aggregator/core/node/part.h", "since"): "the number of a count, Counters.since of proto/meridian.proto",
}
INTEGER = r"(?:const\s+|volatile\s+|_Atomic\s+)*(?:u?int64_t|long(?!\s+double)(?:\s+long)?(?:\s+int)?|_Atomic\(u?int64_t\))"
TIME_NAMES = re.compile(r"(?!(?:pid|mnt|net|time)_ns$)(?:.*_)?(?:ns|ts|since|until|deadline)$")  # whatever the integer; pid_ns is a namespace
SIGNED_TIME_NAMES = re.compile(r"(?:.*_)?(?:at|begin|began|begun|end|ended|start|started|first|last|now|due)(?:\[.*)?$")  # an offset is unsigned
INSTANT_NAMES = re.compile(r"(?:.*_)?(?:at|ts|since|until|deadline|now)$")


def members(text):
    """(offset, type, name) of each member that a structure declares; text without comments."""
    for m in re.finditer(r"\b(?:struct|union)\b[^;{}()=]*\{", text):
        depth, at = 1, m.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        body, depth, flat = text[m.end():at - 1], 0, []
        for c in body:  # members of structures inside are met by themselves
            depth += c == "{"
            flat.append(c if depth == 0 or c == "\n" else " ")
            depth -= c == "}"
        for d in re.finditer(r"(?:^|;)\s*(?P<type>" + INTEGER + r"|mrd_dur_ns)\s+(?P<names>[^;(){}=]+)(?=;)", "".join(flat)):
            for name in d.group("names").split(","):
                word = re.match(r"[\s*]*(\w+)", name)
                if word and "*" not in name:
                    yield m.end() + d.start("type"), d.group("type"), word.group(1)


def rule_instants():
    """A member that keeps an instant has a type that says of which clock; one that keeps a length of time is an mrd_dur_ns."""
    for path in sources(".c", ".h"):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), read(path), flags=re.S)
        for at, kind, name in members(text) if path != "base/clock.h" else ():
            if any(path.startswith(place) and only in (None, name) for place, only in BARE_TIMES):
                continue
            if path.startswith("trace/") and kind == "uint64_t" and name.endswith("ns"):
                continue  # a sum of durations, of all workers or steps
            place = f"{path}:{text.count(chr(10), 0, at) + 1}"
            if kind == "mrd_dur_ns":
                if INSTANT_NAMES.match(name):
                    breach(place, f"{name} is a duration by its type and an instant by its name: mrd_local_ns and others of base/clock.h, or another name")
            elif TIME_NAMES.match(name) or SIGNED_TIME_NAMES.match(name) and not kind.startswith("u"):
                breach(place, f"{name} keeps a time as a bare {kind}: an instant is a type of base/clock.h that names its clock, a duration an mrd_dur_ns")


ARGUMENTS_MAX = 8


def arguments(text):
    """How many a parameter list has."""
    depth, n = 0, 1
    for c in text:
        depth += (c in "([") - (c in ")]")
        n += c == "," and depth == 0
    return n


def rule_arguments():
    """A function has at most 8 parameters: more are a structure with names."""
    for path in sources_and_tests(".c", ".h"):
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), read(path), flags=re.S)
        for m in re.finditer(r"^[\w *]+\n(\w+)\(([^{};]*?)\)\n\{\n", text, re.M):
            if arguments(m.group(2)) > ARGUMENTS_MAX and not m.group(1).startswith(("nrt", "nrta")):  # the runtime's own
                breach(f"{path}:{text[:m.start()].count(chr(10)) + 2}", f"{m.group(1)} has {arguments(m.group(2))} parameters: make a structure of what belongs together")


LINES_MAX = {".c": 900, ".h": 250}
FUNCTION_LINES_MAX = 80
LONG = {  # path: why it stays in one
    "capture/meridian.h": "the public interface: who writes a program wants one page",
    "capture/nrt/nrt_abi.h": "another vendor's interface, function by function",
    "capture/ring/ring.h": "the layout of one file; docs/reference/ring.md is its text",
}


def rule_sizes():
    """A source has at most 900 lines, a header 250, a function 80; a file that is longer is cut by purpose, or LONG says why not."""
    for path in sources_and_tests(*LINES_MAX):
        lines = read(path).split("\n")
        for at in (i for i, line in enumerate(lines) if line == "{"):
            long = next((i for i in range(at, len(lines)) if lines[i] == "}"), len(lines)) - at + 1
            if long > FUNCTION_LINES_MAX:
                breach(f"{path}:{at}", f"a function of {long} lines, more than {FUNCTION_LINES_MAX}: move a table out of it, or cut it by purpose")
        n, most = len(lines) - 1, LINES_MAX[".c" if path.startswith("tests/") else os.path.splitext(path)[1]]  # headers of tests are sources
        if n > most and path not in LONG:
            breach(path, f"has {n} lines, more than {most}: cut it by purpose")
        if n <= most and path in LONG:
            breach("tests/house/rules.py", f"LONG names {path}, which has {n} lines: take it out")
    for place, n in long_in_python():
        breach(place, f"a function of {n} lines, more than {FUNCTION_LINES_MAX}: cut it by purpose")


def long_in_python():
    """(place, lines) of each function of ours in Python that is longer than one in C may be."""
    for path in subprocess.run(["git", "-C", ROOT, "ls-files", "*.py"], capture_output=True, text=True).stdout.split():
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno - node.lineno >= FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}", node.end_lineno - node.lineno + 1


def main():
    rules = {name[5:]: f for name, f in globals().items() if name.startswith("rule_")}
    for name in sys.argv[1:] or rules:
        before = len(breaches)
        rules[name]()
        print(f"{name}: {len(breaches) - before} breaches")
    for b in breaches:
        print("FAILED", b)
    sys.exit(1 if breaches else 0)


main()
