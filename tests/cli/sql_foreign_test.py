"""Runs `meridian sql` and `meridian.open` on a profile directory that an attacker made. It has a
database that names a file to remove, views without an end, and statements that would change
something. No other file may be changed, and every query must end. Usage: sql_foreign_test.py
MERIDIAN"""
import os
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import meridian_data

MERIDIAN = os.path.abspath(sys.argv[1])
PAGE = 4096
failed = []
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


def check(ok, what):
    if not ok:
        failed.append(what)


def sql(query, *profiles, options=(), timeout=120, **more):
    p = subprocess.run([MERIDIAN, "sql", query, *profiles, *options], **{"stdout": subprocess.PIPE, **more}, stderr=subprocess.PIPE, text=True, timeout=timeout)
    return p.returncode, p.stdout, p.stderr


def profile(folder, events="CREATE TABLE events (name TEXT)"):
    """A folder with the few tables that `meridian sql` looks for; events is what the attacker put in their place."""
    os.makedirs(folder)
    db = sqlite3.connect(os.path.join(folder, "profile.sqlite"))
    db.executescript(f"CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO strings VALUES (0, 'kept'); {events};")
    db.commit()
    db.close()
    return folder


def add_hot_journal(folder, victim):
    """A rollback journal that is complete and names the victim as its super-journal: SQLite rolls back and removes the victim."""
    database = os.path.join(folder, "profile.sqlite")
    with open(database, "rb") as f:
        first = f.read(PAGE)
    nonce = 0x1234
    checksum = (nonce + sum(first[i] for i in range(PAGE - 200, 0, -200))) & 0xFFFFFFFF
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 1, nonce, os.path.getsize(database) // PAGE, 512, PAGE)
    name = victim.encode()
    with open(database + "-journal", "wb") as f:
        f.write(header.ljust(512, b"\0") + struct.pack(">I", 1) + first + struct.pack(">I", checksum))
        f.write(struct.pack(">I", 0x40000000 // PAGE + 1) + name + struct.pack(">2I", len(name), sum(name)) + header[:8])


def no_file_is_removed(work):
    """Alone, as one of several, and in Python; folders whose names mean something in an address, too."""
    victim = os.path.join(work, "precious")
    good = profile(os.path.join(work, "good"))
    for name in ("evil", "ev?mode=rwc&x#%41 l", "file:evil"):
        evil = profile(os.path.join(work, name))
        for several in (False, True):
            with open(victim, "w") as f:
                f.write("precious\n")
            add_hot_journal(evil, victim)
            before = open(os.path.join(evil, "profile.sqlite"), "rb").read(), sorted(os.listdir(evil))
            query, profiles = ("SELECT text FROM p0.strings UNION ALL SELECT text FROM p1.strings", [good, name]) if several else ("SELECT text FROM strings", [name])
            code, out, err = sql(query, *profiles, cwd=work)
            what = f"{name}, several {several}"
            check(code == 0 and out.split()[1:] == ["kept"] * len(profiles), f"{what}: the rows are read: {code}, {out!r}, {err!r}")
            check(f"{name}/profile.sqlite-journal" in err, f"{what}: a sentence names the journal: {err!r}")
            check(os.path.exists(victim), f"{what}: the file that the journal names was removed")
            check((open(os.path.join(evil, "profile.sqlite"), "rb").read(), sorted(os.listdir(evil))) == before, f"{what}: the folder was changed")
        with meridian_data.open_profile(evil) as p:
            check(p.sql("SELECT text FROM strings", as_="rows") == [{"text": "kept"}], f"{name}: the rows in Python")
        check(os.path.exists(victim), f"{name}: Python removed the file that the journal names")


def views_end(work):
    """Limits of time and of memory; what Ctrl-C does."""
    endless = profile(os.path.join(work, "endless"), "CREATE VIEW events AS " + ENDLESS.format("COUNT(*) AS name"))
    code, _, err = sql("SELECT * FROM events", endless, options=("--timeout", "1s"))
    check(code == 1 and "--timeout" in err, f"an endless view ends: {code}, {err!r}")
    large = profile(os.path.join(work, "large"), "CREATE VIEW events AS " + ENDLESS.format("zeroblob(1000000) AS name"))
    for query in ("SELECT group_concat(hex(name)) FROM events", "SELECT json_group_array(hex(name)) FROM events", "SELECT hex(name) FROM events",
                  "SELECT " + ", ".join(["x"] * 2000) + " FROM (SELECT hex(name) AS x FROM events)"):
        code, _, err = sql(query, large, options=("--timeout", "2s", "--memory", "64M"), stdout=subprocess.DEVNULL,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)) if "asan" not in MERIDIAN else None)
        check(code == 1 and ("--memory" in err or "--timeout" in err or "too big" in err), f"{query:.60}: {code}, {err!r}")
    # the table that each profile must have is a view without end
    hidden = os.path.join(work, "hidden")
    os.makedirs(hidden)
    with sqlite3.connect(os.path.join(hidden, "profile.sqlite")) as db:
        db.execute("CREATE VIEW strings AS " + ENDLESS.format("i AS id, 'x' AS text") + " WHERE i < 0")
    code, _, err = sql("SELECT 1", hidden, options=("--timeout", "1s"))
    check(code == 1 and "--timeout" in err, f"an endless view that is opened: {code}, {err!r}")
    p = subprocess.Popen([MERIDIAN, "sql", "SELECT 1 UNION ALL SELECT * FROM events", endless, "--format", "csv"], stdout=subprocess.PIPE)
    p.send_signal(signal.SIGINT)
    check(p.wait(timeout=60) == -signal.SIGINT, f"Ctrl-C ends an endless view: {p.returncode}")
    p.stdout.close()
    with meridian_data.open_profile(endless) as db:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            db.sql("SELECT * FROM events", as_="rows")
            check(False, "an endless view ended in Python")
        except KeyboardInterrupt:
            pass


def nothing_is_written(work):
    folder = profile(os.path.join(work, "written"))
    other = os.path.join(work, "other.sqlite")
    statements = (f"ATTACH '{other}' AS o", f"VACUUM INTO '{other}'", "INSERT INTO p0.strings VALUES (1, 'x')", "DROP TABLE p0.strings",
                  "CREATE TEMP TABLE t (x)", "CREATE TEMP VIEW v AS SELECT 1", "PRAGMA p0.journal_mode = wal", "PRAGMA writable_schema = 1",
                  "PRAGMA p0.user_version = 7", "PRAGMA temp_store_directory = '/'", "SELECT load_extension('x')", "BEGIN IMMEDIATE", "DETACH p0",
                  "UPDATE sqlite_master SET sql = 'x'", "DELETE FROM p0.sqlite_master", "CREATE VIRTUAL TABLE temp.f USING fts3(x)")
    before = sorted(os.listdir(folder)), open(os.path.join(folder, "profile.sqlite"), "rb").read()
    for statement in statements:
        code, out, err = sql(statement, folder)
        check(code == 2 and out == "", f"{statement}: {code}, {out!r}, {err!r}")
        with meridian_data.open_profile(folder) as p:
            try:
                p.sql(statement.replace("p0.", ""), as_="rows")
                check(False, f"{statement}: allowed in Python")
            except sqlite3.DatabaseError:
                pass
    check((sorted(os.listdir(folder)), open(os.path.join(folder, "profile.sqlite"), "rb").read()) == before and not os.path.exists(other), "something was written")
    for statement in ("PRAGMA p0.table_info(strings)", "SELECT name FROM pragma_table_info('strings')", "PRAGMA p0.user_version", "EXPLAIN SELECT 1", "SELECT value FROM json_each('[1]')",
                      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT MAX(i), json_array(1) FROM n"):
        code, out, err = sql(statement, folder)
        check(code == 0 and out != "", f"{statement}: {code}, {err!r}")


def only_files_are_opened(work):
    """A pipe would be waited for for ever."""
    folder = os.path.join(work, "pipe")
    os.makedirs(folder)
    os.mkfifo(os.path.join(folder, "profile.sqlite"))
    code, _, err = sql("SELECT 1", folder, timeout=30)
    check(code == 1 and "profile.sqlite" in err, f"a pipe: {code}, {err!r}")
    try:
        meridian_data.open_profile(folder)
        check(False, "a pipe was opened in Python")
    except ValueError:
        pass


def main():
    for case in (no_file_is_removed, views_end, nothing_is_written, only_files_are_opened):
        with tempfile.TemporaryDirectory(prefix="sql-foreign-") as work:
            case(work)
    for line in failed:
        print(line)
    return 1 if failed else 0


sys.exit(main())
