"""`meridian view --output-format parquet-explorer --schema FILE`: dumps of other versions of the vendor's schema, made here with columns
added, renamed, retyped and reordered, are compared with the files by the plain reader of python/, and by DuckDB where it can be
had; dumps that are none, or hostile, are refused with their line and write nothing.
Usage: vendor_schema.py CASES; MRD_SEED=n begins at another seed."""
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MERIDIAN_BUILD") or os.path.join(ROOT, "build")
sys.path.insert(0, os.path.join(ROOT, "tests", "standin"))
sys.path.insert(0, os.path.join(ROOT, "tests", "trace"))
import parquet_read
import readers

failures = []
work = tempfile.mkdtemp(prefix="vendor-schema-")
# What 7.4.0 has, from its published page: name, type, item or format, required.
EVENTS = [("id", "integer", True), ("name", "string", True), ("start_ts", "integer", True), ("end_ts", "integer", True), ("duration_ns", "integer", True),
          ("trace_event_source", "string", True), ("instance_id", "string", True), ("process_id", "integer", True), ("thread_id", "integer", True),
          ("nc_idx", "integer", False), ("pcore_idx", "integer", False), ("worker_gid", "integer", False), ("flow_id", "array", False),
          ("framework_stream_id", "string", False), ("extra_attributes_json", "string", False)]
CPU = [("timestamp", "integer", True), ("util_percent", "number", True), ("cpu_id", "string", True), ("instance_id", "string", True),
       ("ultraserver_id", "string", False), ("ultraserver_instance_index", "integer", False)]
FIELDS = [("table_name", "string", True), ("table_description", "string", True), ("field_name", "string", True), ("field_description", "string", True),
          ("field_type", "string", True), ("field_required", "boolean", True), ("field_example", "string", False), ("field_format", "string", False),
          ("field_unit", "string", False), ("field_enum_values", "string", False), ("field_minimum", "number", False), ("field_maximum", "number", False)]
WARNING = [("message", "string", True), ("category", "string", True)]
METADATA = [("profile_schema_version", "string", True), ("instance", "string", False)]
NEVER = {"framework_stream_id", "ultraserver_id", "ultraserver_instance_index"}  # columns of 7.4.0 that Meridian has nothing for


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED", what)
    return ok


def equal(got, want, what):
    return check(got == want, f"{what}: got {got!r}, expected {want!r}")


def trace():
    """A system trace in the guide's JSON, with two kinds of events, flows and CPU samples."""
    path = os.path.join(work, "trace.json")
    events = []
    for i in range(400):
        at = 1_700_000_000_000_000_000 + i * 1000
        events.append({"ph": "X", "name": f"op{i % 7}", "cat": "cpu_op", "pid": 77, "tid": 5 + i % 2, "ts": at / 1000, "dur": 0.5,
                       "args": {"shape": [i % 3], "External id": i}})
    with open(path, "w") as f:
        json.dump({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}, f)
    return path


def view(to, *options):
    got = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "view", TRACE, "--output-format", "parquet-explorer", "-o", to, "--force", "--vendor-tool", "none",
                          *options], capture_output=True, text=True, timeout=120)
    return got.returncode, got.stderr


def tables_of(to):
    where = os.path.join(to, "system_profile")
    return {f[:-8]: parquet_read.File(os.path.join(where, f)) for f in os.listdir(where) if f.endswith(".parquet")}


# ---- Dumps ----
def block(name, fields, text="What it is."):
    """A block of the dump: fields are (name, type, required, more lines of the property)."""
    lines = [f"{name}:", "  type: object", f"  description: {text}", "  required:"] + [f"    - {f[0]}" for f in fields if f[2]] + ["  properties:"]
    for f in fields:
        lines += [f"    {f[0]}:", f"      type: {f[1]}", f"      description: Of {name}, {f[0]}."]
        lines += [f"      {line}" for line in (f[3] if len(f) > 3 else ())]
        if f[1] == "array" and len(f) < 4:
            lines += ["      items:", "        type: string"]
        if f[1] == "integer":
            lines += ["      format: int64"]
    return "\n".join(lines)


def root(version):
    return f"openapi: 3.0.3\ninfo:\n  title: Profile\n  version: {version}\npaths: {{}}\ncomponents:\n  schemas:\n    CpuUsage:\n      $ref: './CpuUsage.yaml#/CpuUsage'"


def dump(name, version, blocks, joined="\n---\n", first=None):
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(joined.join([first if first is not None else root(version)] + blocks))
    return path


# ---- What is read back ----
def check_profile(what, schema, tables, unfilled):
    """tables: {name: [(field, type, required)]} of the dump, for those the profile has rows of."""
    to = os.path.join(work, "out")
    status, err = view(to, "--schema", schema)
    if not equal(status, 0, f"{what}: {err.strip()}"):
        return
    got = tables_of(to)
    rows = {name: f.read() for name, f in got.items()}
    for name, fields in tables.items():
        if not check(name in got, f"{what}: no {name}.parquet among {sorted(got)}"):
            continue
        equal(got[name].columns, [f[0] for f in fields], f"{what}: columns of {name}")
    for name, column in unfilled:
        if column in rows[name]:
            check(all(v is None for v in rows[name][column]), f"{what}: {name}.{column} is not NULL")
        equal(err.count(f"{name}.{column}"), 1, f"{what}: how often {name}.{column} is named in {err!r}")
    said = [m for m, c in zip(rows["Warning"]["message"], rows["Warning"]["category"]) if m.startswith("schema ")]
    equal(len(said), 1 if unfilled else 0, f"{what}: rows of Warning {said}")
    equal(err.count("schema "), len(said), f"{what}: sentences {err!r}")
    base = BASE["SystemProfileEvents"]
    mine = rows["SystemProfileEvents"]
    for column in base:  # a column both have is the same, value for value
        if column in mine and ("SystemProfileEvents", column) not in unfilled:
            odd = [(i, a, b) for i, (a, b) in enumerate(zip(mine[column], base[column])) if a != b]
            check(not odd and len(mine[column]) == len(base[column]), f"{what}: SystemProfileEvents.{column} differs from 7.4.0: {odd[:2]}")
    fields = list(zip(rows["SchemaFields"]["table_name"], rows["SchemaFields"]["field_name"], rows["SchemaFields"]["field_type"],
                      rows["SchemaFields"]["field_required"]))
    for name, wanted in tables.items():
        equal([f[1:] for f in fields if f[0] == name], [(f[0], f[1], f[2]) for f in wanted], f"{what}: SchemaFields of {name}")
    by_duckdb(what, to, tables)


def by_duckdb(what, to, tables):
    """Counts of values that are there, of another reader than ours."""
    if not DUCKDB:
        return
    queries, ours = [], []
    for name, fields in tables.items():
        path = os.path.join(to, "system_profile", f"{name}.parquet")
        got = parquet_read.File(path).read()
        queries.append(f"""SELECT {', '.join(f'COUNT("{f[0]}")' for f in fields)} FROM read_parquet('{path}')""")
        ours.append([sum(v is not None for v in got[f[0]]) for f in fields])
    theirs = [r[0] for r in readers.duckdb("", *queries)]
    equal([[int(v) for v in (r.values() if isinstance(r, dict) else r)] for r in theirs], ours, f"{what}: values in DuckDB")


def change(rng, columns, table):
    """Columns of another version: some renamed, retyped, added, in another order. Which cannot be filled."""
    out, never = [], []
    for name, kind, required in columns:
        what = rng.random()
        if what < 0.1 and name not in ("id", "name"):
            continue  # removed
        if what < 0.2:
            name += "_v2"
            never.append(name)
        elif what < 0.3:
            kind = rng.choice([k for k in ("integer", "number", "string", "boolean") if k != kind])
            never.append(name)
        elif name in NEVER:
            never.append(name)
        out.append((name, kind, required if rng.random() < 0.8 else not required))
    for i in range(rng.randrange(4)):
        name = f"added_{i}_{rng.randrange(100)}"
        out.append((name, rng.choice(["integer", "number", "string", "boolean", "array"]), rng.random() < 0.5))
        never.append(name)
    rng.shuffle(out)
    return out, [(table, n) for n in never]


def random_dumps(cases):
    first = int(os.environ.get("MRD_SEED", "1"))
    for seed in range(first, first + cases):
        rng = random.Random(seed)
        events, unfilled = change(rng, EVENTS, "SystemProfileEvents")
        blocks = [block("SystemProfileEvents", events), block("SchemaFields", FIELDS), block("Warning", WARNING), block("CpuUsage", CPU),
                  block("Metadata", METADATA), "ErrorType:\n  type: string\n  enum: [Errors, Warnings]"]
        rng.shuffle(blocks)
        joined = rng.choice(["\n---\n", "---", "\n---", "\n\n---\n\n", "\r\n---\r\n"])
        version = f"{rng.randrange(7, 13)}.{rng.randrange(20)}.{rng.randrange(20)}"
        path = dump(f"random{seed}.yaml", version, blocks, joined)
        missing = set(c[0] for c in EVENTS) - set(e[0] for e in events)
        unfilled += [("CpuUsage", c) for c in ("ultraserver_id", "ultraserver_instance_index")]
        check_random(f"seed {seed} ({version})", path, events, unfilled, missing)


def check_random(what, path, events, unfilled, missing):
    to = os.path.join(work, "out")
    check_profile(what, path, {"SystemProfileEvents": events, "SchemaFields": FIELDS, "Warning": WARNING}, [u for u in unfilled if u[0] != "CpuUsage"])
    status, err = view(to, "--schema", path)
    for name in missing - NEVER:
        check(f"SystemProfileEvents.{name}" in err, f"{what}: {name}, which the schema does not have, is not named in {err!r}")


# ---- What is refused ----
def refused(what, path, *said, options=()):
    to = os.path.join(work, "refused")
    status, err = view(to, "--schema", path, *options)
    check(status not in (0, -6, -11) and status > 0, f"{what}: status {status}")
    for word in said:
        check(word in err, f"{what}: {err.strip()!r} does not say {word!r}")
    check(not os.path.exists(os.path.join(to, "system_profile")), f"{what}: something was written")
    check(len(err) < 1500, f"{what}: a message of {len(err)} bytes")


def hostile():
    good = [block("SystemProfileEvents", EVENTS), block("SchemaFields", FIELDS)]
    refused("a MAJOR nobody knows", dump("major.yaml", "13.0.0", good), "13.0.0", "MAJOR 13", "7 to 12", "--schema-major 13")
    refused("another MAJOR than the one that is accepted", dump("major.yaml", "14.0.0", good), "MAJOR 14", options=("--schema-major", "13"))
    refused("an old MAJOR", dump("major.yaml", "6.9.9", good), "MAJOR 6")
    refused("a version instead of a dump", "12.0.1", "12.0.1", "7.4.0", "--show-profile-schema")
    refused("no such file", os.path.join(work, "nothing.yaml"), "nothing.yaml")
    for version in ("7.4", "7.4.0.1", "seven", "", "7.4.-1", "99999999999999999999.0.0", "{}"):
        refused(f"version {version!r}", dump("version.yaml", version, good), "version")
    refused("no root", dump("noroot.yaml", "", good[1:], first=good[0]), "version", "--show-profile-schema")
    refused("two roots", dump("tworoots.yaml", "7.4.0", [root("7.4.0")] + good), "second")
    refused("no events", dump("noevents.yaml", "7.4.0", good[1:]), "SystemProfileEvents", "nowhere")
    refused("nothing", dump("empty.yaml", "7.4.0", []), "no tables")
    refused("an empty file", dump("zero.yaml", "", [], first=""), "no tables")
    refused("a table twice", dump("twice.yaml", "7.4.0", good + [good[0]]), "SystemProfileEvents", "already")
    refused("a column twice", dump("column.yaml", "7.4.0", [block("SystemProfileEvents", EVENTS + [EVENTS[3]])]), "end_ts", "already")
    refused("a type that is none", dump("type.yaml", "7.4.0", [block("SystemProfileEvents", [("id", "int", True)])]), "id", "SystemProfileEvents", "type")
    refused("a list of fields", dump("list.yaml", "7.4.0", ["SystemProfileEvents:\n  properties:\n    - id\n    - name"]), "mapping")
    refused("a field that is text", dump("text.yaml", "7.4.0", ["SystemProfileEvents:\n  properties:\n    id: integer"]), "id", "type")
    refused("a table that is text", dump("flat.yaml", "7.4.0", ["SystemProfileEvents: yes"]), "mapping")
    refused("a table that would leave its folder", dump("path.yaml", "7.4.0", good + ["../../etc/passwd:\n  properties: {}"]), "name")
    refused("a list instead of tables", dump("seq.yaml", "7.4.0", ["- a\n- b"]), "table")
    refused("JSON that is no dump", dump("json.yaml", "", [], first='{"traceEvents": []}'), "traceEvents")
    refused("a deep one", dump("deep.yaml", "7.4.0", ["SystemProfileEvents:\n  properties: " + "[" * 5000 + "]" * 5000]), "deep")
    refused("a wide one", dump("wide.yaml", "7.4.0", ["SystemProfileEvents:\n  properties:\n    id: {type: integer, x: [" + "1," * 400000 + "1]}"]), "more than")
    refused("many tables", dump("tables.yaml", "7.4.0", [f"T{i}:\n  type: object" for i in range(1100)]), "more than 1000")
    refused("many fields", dump("fields.yaml", "7.4.0", [block("SystemProfileEvents", [(f"f{i}", "integer", True) for i in range(2100)])]), "more than 2000")
    refused("many columns", dump("columns.yaml", "7.4.0", [block("SystemProfileEvents", [(f"f{i}", "integer", True) for i in range(300)])]), "250")
    refused("a large one", dump("large.yaml", "7.4.0", good + ["#" + "x" * (9 << 20)]), "larger than")
    refused("aliases", dump("alias.yaml", "7.4.0", ["SystemProfileEvents:\n  properties:\n    id: &a {type: integer}\n    other: *a"]), "alias", "alias.yaml:1")
    refused("a line of dashes", dump("dashes.yaml", "7.4.0", ["T:\n  description: x" + "-" * (4 << 20)]), "SystemProfileEvents")
    values = "E:\n  enum: [" + ", ".join("v" * 20 + str(i) for i in range(50000)) + "]"
    by_reference = "SystemProfileEvents:\n  properties:\n" + "\n".join(f"    f{i}: {{$ref: E}}" for i in range(200))
    refused("a long list of values that many fields refer to", dump("values.yaml", "7.4.0", [values, by_reference]), "more than 32 MiB")
    refused("no YAML", dump("noyaml.yaml", "7.4.0", ["SystemProfileEvents:\n  properties: {id: [}"]), "noyaml.yaml:1")
    refused("a tab", dump("tab.yaml", "7.4.0", ["SystemProfileEvents:\n\tproperties: {}"]), "tab.yaml:1")
    with open(os.path.join(work, "bytes.yaml"), "wb") as f:
        f.write(b"openapi: 3.0.3\ninfo: {version: 7.4.0}\n---\nSystemProfileEvents:\n  description: \xff\xfe\n")
    refused("no UTF-8", os.path.join(work, "bytes.yaml"), "bytes.yaml")
    refused("a name of many bytes", dump("long.yaml", "7.4.0", ["T" * 500 + ":\n  properties: {}"]), "name")
    got = subprocess.run([os.path.join(BUILD, "bin", "meridian"), "view", TRACE, "--output-format", "csv", "-o", os.path.join(work, "refused"), "--schema", "7.4.0"],
                         capture_output=True, text=True)
    check(got.returncode == 2 and "parquet-explorer" in got.stderr, f"--schema without parquet-explorer: {got.returncode} {got.stderr!r}")


def details():
    """Descriptions, units, examples, allowed values and bounds come into SchemaFields; types by reference; what cannot be written is left out."""
    events = EVENTS[:5] + [("source", "string", False, ("enum: [neuron_rt, neuron_hw]", "x-unit: sources", 'example: ["neuron_rt", "neuron_hw"]')),
                           ("level", "integer", False, ("minimum: -3", "maximum: 1e3", "example: 7"))]
    text = block("SystemProfileEvents", events, "Ends with --- dashes - and 'quotes'") + (
        "\n    why:\n      $ref: '#/components/schemas/ErrorType'\n    points:\n      type: array\n      items: {type: integer}\n"
        "    nested:\n      allOf:\n        - $ref: '#/components/schemas/Metadata'\n    maybe:\n      type: [string, 'null']")
    path = dump("details.yaml", "9.1.2", [text, block("SchemaFields", FIELDS), block("Warning", WARNING), block("Metadata", METADATA),
                                         "ErrorType:\n  type: string\n  enum:\n    - Errors\n    - Warnings"])
    to = os.path.join(work, "out")
    status, err = view(to, "--schema", path)
    if not equal(status, 0, f"details: {err}"):
        return
    got = tables_of(to)
    equal(got["SystemProfileEvents"].columns, [e[0] for e in events] + ["why", "maybe"], "details: columns")
    for name in ("points", "nested"):
        check(f"SystemProfileEvents.{name}" in err and "left out" in err, f"details: {name} is not named: {err}")
    rows = got["SchemaFields"].read()
    at = {(t, f): i for i, (t, f) in enumerate(zip(rows["table_name"], rows["field_name"]))}

    def row(field):
        i = at[("SystemProfileEvents", field)]
        return tuple(rows[c][i] for c in ("field_type", "field_unit", "field_example", "field_enum_values", "field_minimum", "field_maximum"))

    equal(row("source"), ("string", "sources", "neuron_rt,neuron_hw", "neuron_rt,neuron_hw", None, None), "details: source")
    equal(row("level"), ("integer", None, "7", None, -3.0, 1000.0), "details: level")
    equal(row("why"), ("string", None, None, "Errors,Warnings", None, None), "details: why")
    equal(row("points")[0], "array", "details: points")
    equal(row("nested")[0], "object", "details: nested")
    equal(rows["table_description"][at[("SystemProfileEvents", "id")]], "Ends with --- dashes - and 'quotes'", "details: the table's description")
    equal([f for t, f in zip(rows["table_name"], rows["field_name"]) if t == "Metadata"], [f[0] for f in METADATA], "details: a table without rows of ours")
    equal(got["SystemProfileEvents"].notes["profile_schema_version"], "9.1.2", "details: the version in the file")
    status, err = view(to, "--schema", dump("accepted.yaml", "13.2.0", [text, block("Metadata", METADATA), "ErrorType:\n  enum: [a]"]), "--schema-major", "13")
    equal(status, 0, f"a MAJOR that is accepted by name: {err}")
    status, err = view(to, "--schema", "7.4.0")
    equal((status, tables_of(to)["SystemProfileEvents"].columns), (0, [c[0] for c in EVENTS]), f"the version that is built in: {err}")


TRACE = trace()
status, err = view(os.path.join(work, "base"))
equal(status, 0, f"7.4.0: {err}")
built_in = tables_of(os.path.join(work, "base"))
BASE = {name: f.read() for name, f in built_in.items()}
equal(built_in["SystemProfileEvents"].columns, [c[0] for c in EVENTS], "7.4.0: columns")
equal(len(BASE["SystemProfileEvents"]["id"]), 400, "7.4.0: rows")
units = {f: u for t, f, u in zip(BASE["SchemaFields"]["table_name"], BASE["SchemaFields"]["field_name"], BASE["SchemaFields"]["field_unit"]) if t == "SystemProfileEvents"}
equal((units["start_ts"], units["id"]), ("nanoseconds", None), "7.4.0: units as the vendor's page has them")
DUCKDB = readers.folder() is not None
random_dumps(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
details()
hostile()
if failures:
    sys.exit(f"{len(failures)} failed")
print("all dumps were followed or refused")
