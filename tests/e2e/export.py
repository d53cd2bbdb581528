"""Tests meridian-aggregator --export. Sessions must be copied completely and once to a directory
and to S3, also after kill -9, status 503, cut connections, and a read-only or full target. Files of
users that are in the way must be reported. Nothing may be removed before it is exported."""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import time

import s3_server
from lib import SOURCE, check, equal, files_of, finish, until
from service import Service

sys.path[:0] = [os.path.join(SOURCE, "python"), os.path.join(SOURCE, "tests", "fake"), os.path.join(SOURCE, "tests", "standin")]
import fusefs
import meridian


OTHER = 54321  # a user who owns nothing, and becoming that user with the right to read this checkout, wherever it is
BECOME = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "--inh-caps=+dac_override,+dac_read_search",
          "--ambient-caps=+dac_override,+dac_read_search"]


def export_of(service, id):
    return service.session(id).get("export", {})


def gone(service, id):
    return service.read(f"/api/v1/sessions/{id}").status == 404


def stored(service, id):
    """What the session's folder holds that is to be exported, but for the manifest of the session, which goes on changing."""
    all_ = files_of(service.path("store", "sessions", id))
    return {p: h for p, h in all_.items() if not p.startswith(("journal/", "clocks/")) and p not in ("artifacts.log", "session.json")}


def in_s3(server, id):
    """The objects of a session, checked against their metadata: {path: SHA-256}."""
    found = {}
    for key, (data, sha) in server.objects.items():
        if f"/{id}/" in key:
            equal(hashlib.sha256(data).hexdigest(), sha, f"{key} and its metadata")
            found[key.split(f"/{id}/", 1)[1]] = sha
    return found


def whole(got, service, id, what):
    got = dict(got)
    check(got.pop("session.json", None), f"{what}: session.json is there")
    equal(got, stored(service, id), f"{what}: files")
    for wanted in ("profile/system_profile.pftrace", "profile/tables/_manifest.json"):
        check(wanted in got, f"{what}: {wanted}")
    check(any(p.endswith("model.neff") for p in got), f"{what}: the artifact, in {sorted(got)[:40]}")


def into_folder():
    with Service(export="unset", export_path="{cluster}/{user}/{job}/{session}", cluster="blue") as service:
        target = service.folder("shared")
        service.options["export"] = target
        service.workloads = service.begin()
        id = service.recorded(service.workloads, 3000)
        check(until(lambda: export_of(service, id).get("state") == "done", "exported"), "the folder has the session")
        at = os.path.join(target, "blue", "unknown", "unknown", id)
        whole(files_of(at), service, id, "folder")
        equal(glob.glob(os.path.join(at, "**", "*meridian-part*"), recursive=True), [], "no temporary files")
        with meridian.open(os.path.join(at, "profile", "tables")) as profile:
            check(len(profile.table("events", as_="rows")) > 0, "tables of the copy are read")
        metrics = service.get("/metrics")
        check('meridian_exports{state="done"} 1' in metrics, "metrics count it")
        # A target that cannot be written: said, tried again, nothing removed by retention, done when it can.
        service.daemon.end()
        blocked = service.path("blocked")
        with open(blocked, "w"):
            pass
        service.options.update(export=os.path.join(blocked, "inside"), retain="100ms")
        service.aggregator()
        until(service.answers, "the aggregator answers")
        until(lambda: gone(service, id), "an exported session is retained no longer")
        second = service.recorded(service.workloads, 500, artifact=False)
        until(lambda: export_of(service, second).get("state") == "failed", "the failure is told")
        check("blocked" in export_of(service, second)["message"], export_of(service, second)["message"])
        check(service.session(second)["state"] == "complete", "what is not exported stays")
        os.unlink(blocked)
        os.makedirs(os.path.join(blocked, "inside"))
        until(lambda: os.path.exists(os.path.join(blocked, "inside", "blue", "unknown", "unknown", second, "session.json")), "tried again when the target is back", 180)
        until(lambda: gone(service, second), "and then it may go", 180)


def into_s3():
    server = s3_server.Server()
    with Service(export="s3://bucket/pre=fix") as service:
        service.env.update(AWS_ACCESS_KEY_ID=s3_server.KEY, AWS_SECRET_ACCESS_KEY=s3_server.SECRET, AWS_REGION=s3_server.REGION, AWS_ENDPOINT_URL=server.url)
        server.unavailable, server.cut = 2, 1
        workloads = service.begin()
        id = service.recorded(workloads, 3000)
        until(lambda: export_of(service, id).get("state") == "done", "exported")
        whole(in_s3(server, id), service, id, "S3")
        equal(server.refused, [], "every signature and hash is right")
        check(all(k.startswith("bucket/pre=fix/") for k in server.objects), "the prefix")
        # Again: nothing is sent twice.
        puts = sum(method == "PUT" for method, _ in server.log)
        service.ask("POST", f"/api/v1/sessions/{id}/merge")
        until(lambda: sum(m == "HEAD" for m, _ in server.log) > 2 * len(in_s3(server, id)) - 2, "looked at again")
        until(lambda: export_of(service, id).get("state") == "done", "exported again")
        again = sum(method == "PUT" for method, _ in server.log) - puts
        check(again <= 2, f"{again} objects were sent again though nothing but session.json and SHA256SUMS can have changed")
        # kill -9 in the middle, and 503 for longer than one attempt lasts.
        server.unavailable = many = 10**6
        second = service.recorded(workloads, 3000)
        until(lambda: len(server.log) and server.unavailable < many - 2, "it is being refused")
        service.daemon.kill()
        service.aggregator()
        until(service.answers, "the aggregator answers")
        until(lambda: export_of(service, second).get("state") == "failed", "503s are told", 180)
        check("503" in export_of(service, second)["message"], export_of(service, second)["message"])
        server.unavailable = 0
        until(lambda: export_of(service, second).get("state") == "done", "goes on by itself", 180)
        whole(in_s3(server, second), service, second, "S3 after a kill and 503s")
        equal(server.uploads, {}, "no upload is left open")
        # Wrong credentials are said and are no reason to go on and on.
        server.keys = {"other": "other"}
        third = service.recorded(workloads, 300, artifact=False)
        until(lambda: export_of(service, third).get("state") == "failed", "a refusal is told")
        check("403" in export_of(service, third)["message"] and "credentials" in export_of(service, third)["message"], export_of(service, third)["message"])


def by_session():
    """A session names one of the operator's targets; another, a path, or a name that leaves the target is refused or one component."""
    with Service(export_targets="unset", export_path="{cluster}/{user}/{job}/{name}/{session}", cluster="blue", export_owner="job") as service:
        scratch, archive = service.folder("scratch"), service.folder("archive")
        service.options["export_targets"] = f"scratch={scratch},archive={archive}"
        service.aggregator()
        until(service.answers, "the aggregator answers")
        uid, prefix = os.geteuid(), ()
        if uid == 0 and subprocess.run([*BECOME, "true"], capture_output=True).returncode == 0:
            uid, prefix = OTHER, BECOME
        workloads = [service.workload(0, more={"SLURM_JOB_ID": "4711", "SLURM_JOB_USER": "../../eve"}, prefix=prefix)]
        service.agent(0, watch=service.folder("watch0"), stable="50ms", flush="50ms")
        until(lambda: any(n["connected"] and n["rings"] for n in service.nodes().values()), "the agent sees a ring")
        for wrong in ("elsewhere", "../scratch", "/etc", "scratch/../.."):
            reply = service.ask("POST", "/api/v1/sessions", body={"name": "no", "export": wrong})
            check(reply.status == 400 and "--export-targets" in reply.json()["detail"] and "archive" in reply.json()["detail"], f"{wrong}: {reply.status} {reply.body}")
        plain = service.recorded(workloads, 300, artifact=False)
        id = service.start("--name", "../../../up", "--require", "all", "--export", "archive")
        workloads[0].emit(500)
        service.stop(id)
        until(lambda: export_of(service, id).get("state") == "done", "exported")
        found = [at for at, _, names in os.walk(archive) if "session.json" in names]
        equal(len(found), 1, f"one copy: {found}")
        check(found and os.path.realpath(found[0]).startswith(os.path.realpath(archive) + "/blue/") and os.path.basename(found[0]) == id,
              f"names stay one component each: {found}")
        equal(len(os.path.relpath(found[0], archive).split("/")), 5, f"components: {found}")
        equal(os.listdir(scratch), [], "the other target has nothing")
        equal(export_of(service, plain).get("state", "none"), "none", "a session that names none is not exported without a default")
        if prefix:
            entries = [os.path.join(at, n) for at, folders, names in os.walk(found[0]) for n in folders + names] + [found[0]]
            equal({os.lstat(e).st_uid for e in entries}, {uid}, "all of it is the user's whose job it was")
            equal({oct(os.lstat(e).st_mode & 0o7777) for e in entries}, {"0o700", "0o600"}, "and readable by that user only")
            check(os.lstat(os.path.dirname(found[0])).st_uid == os.lstat(archive).st_uid, "what is above belongs to the target")
            planted(service, workloads[0], archive, os.path.relpath(found[0], archive).split("/")[:3], id, found[0], uid)
            # jobs of two users: what both recorded is not given to one of them
            workloads.append(service.workload(0, more={"SLURM_JOB_ID": "4712"}))
            until(lambda: sum(n["rings"] for n in service.nodes().values()) > 1, "the agent sees both")
            both = service.start("--name", "both", "--require", "all", "--export", "scratch")
            for w in workloads:
                w.emit(100)
            service.stop(both)
            until(lambda: export_of(service, both).get("state") == "done", "exported")
            equal(len(service.session(both)["jobs"]), 2, "jobs of the session")
            found = [at for at, _, names in os.walk(scratch) if "session.json" in names]
            equal([os.lstat(at).st_uid for at in found], [os.lstat(scratch).st_uid], "it stays with the target")
        else:
            print("skipped in part: giving files away needs root and setpriv")


def planted(service, workload, archive, above, given, given_at, uid):
    """Links and folders of a user in the way of an export, and a copy that was given: told, nothing outside of the target is touched."""
    outside = service.folder("outside")
    with open(os.path.join(outside, "secret"), "w") as f:
        f.write("nobody's business")
    os.chmod(os.path.join(outside, "secret"), 0o640)
    before = outside_of(outside)

    def run(name, plant):
        id = service.start("--name", name, "--require", "all", "--export", "archive")
        at = os.path.join(archive, *above, name, id)
        plant(at)
        workload.emit(100)
        service.stop(id)
        return id, at

    def link(at):
        os.makedirs(os.path.dirname(at))
        os.symlink(outside, at)

    def link_above(at):
        os.symlink(outside, os.path.dirname(at))

    def foreign(at):
        os.makedirs(at)
        os.chown(at, uid + 1, -1)

    for name, plant, wanted in (("link", link, "links are not followed"), ("above", link_above, "links are not followed"), ("foreign", foreign, f"user {uid + 1}'s")):
        id, at = run(name, plant)
        until(lambda: export_of(service, id).get("state") == "failed", f"{name}: it is told")
        check(wanted in export_of(service, id)["message"] and "remove" in export_of(service, id)["message"], f"{name}: {export_of(service, id)['message']}")
        equal(outside_of(outside), before, f"{name}: nothing outside is touched")
        wrong = os.path.dirname(at) if name == "above" else at
        os.rmdir(wrong) if name == "foreign" else os.unlink(wrong)
        until(lambda: export_of(service, id).get("state") == "done", f"{name}: goes on when it is gone", 180)
        equal(os.lstat(at).st_uid, uid, f"{name}: and is given")

    def hard_links(at):
        os.makedirs(os.path.join(at, "profile"), 0o700)
        for to in ("session.json", "profile/other"):
            os.link(os.path.join(outside, "secret"), os.path.join(at, to))

    id, at = run("hard", hard_links)
    until(lambda: export_of(service, id).get("state") == "done", "exported over hard links")
    check(os.lstat(os.path.join(at, "session.json")).st_nlink == 1 and not os.path.exists(os.path.join(at, "profile", "other")), "none of them is left")
    equal(outside_of(outside), before, "what they led to is as it was")
    # Merged again: the copy is the user's, is not written any more, and is not the session's as it is now.
    had = files_of(given_at)
    service.ask("POST", f"/api/v1/sessions/{given}/merge")
    until(lambda: export_of(service, given).get("state") == "failed", "that the copy is old is told", 180)
    check("already" in export_of(service, given)["message"] and "remove or rename" in export_of(service, given)["message"], export_of(service, given)["message"])
    equal(files_of(given_at), had, "the user's copy is as it was")
    os.rename(given_at, given_at + ".old")
    until(lambda: export_of(service, given).get("state") == "done", "exported again", 180)
    check(files_of(given_at).keys() == had.keys() and os.lstat(given_at).st_uid == uid, "whole, and given again")
    shutil.rmtree(given_at + ".old")


def outside_of(folder):
    return [(at, s.st_mode, s.st_uid, s.st_gid, s.st_mtime_ns, s.st_size) for at in (folder, os.path.join(folder, "secret")) for s in (os.lstat(at),)]


def hanging():
    """A target that does not answer: told; the other target, the API, recording and the end of the aggregator do not wait for it."""
    if fusefs.available():
        print("skipped in part:", fusefs.available())
        return
    with Service(export_targets="unset", export_path="{session}") as service:
        slow, fast = service.folder("slow"), service.folder("fast")
        fs = fusefs.Fuse(service.folder("behind"), slow)
        try:
            service.options["export_targets"] = f"slow={slow},fast={fast}"
            workloads = service.begin()

            def send(name, to):
                id = service.start("--name", name, "--require", "all", "--export", to)
                workloads[0].emit(200)
                return service.stop(id), id

            fs.freeze()
            _, stuck = send("stuck", "slow")
            until(lambda: export_of(service, stuck).get("state") == "running", "it is under way")
            _, other = send("other", "fast")
            until(lambda: export_of(service, other).get("state") == "done", "the other target has its session")
            check(os.path.exists(os.path.join(fast, other, "session.json")), "whole")
            until(lambda: "has not answered" in export_of(service, stuck).get("message", ""), "the session says so", 180)
            check(slow in export_of(service, stuck)["message"], export_of(service, stuck)["message"])
            equal(export_of(service, stuck)["state"], "running", "and goes on")
            fs.thaw()
            until(lambda: export_of(service, stuck).get("state") == "done", "it answers again", 180)
            equal(export_of(service, stuck).get("message", ""), "", "nothing is wrong any more")
            # and at the end of the aggregator
            fs.freeze()
            _, last = send("last", "slow")
            until(lambda: export_of(service, last).get("state") == "running", "it is under way")
            began = time.monotonic()
            service.daemon.end()
            check(time.monotonic() - began < 50, f"the aggregator ends without its target: {time.monotonic() - began:.0f} s")
            fs.thaw()
            service.aggregator()
            until(lambda: export_of(service, last).get("state") == "done", "exported after the next start", 180)
            check(os.path.exists(os.path.join(slow, last, "session.json")), "whole")
        finally:
            fs.close()


def merged_before():
    """A session that was merged while there was no target has no tables; the log says so, and a session after it has them."""
    with Service() as service:
        workloads = service.begin()
        id = service.recorded(workloads, 300)
        service.daemon.end()
        target = service.folder("shared")
        service.options["export"] = target
        service.aggregator()
        until(service.answers, "the aggregator answers")
        until(lambda: export_of(service, id).get("state") == "done", "exported")
        check(not glob.glob(os.path.join(target, "*", id, "profile", "tables")), "no tables")
        lacking = [line for line in service.daemon.text().splitlines() if "AGG-EXPORT-FORMATS" in line]
        check(len(lacking) == 1 and f"id={id} missing=parquet" in lacking[0], f"what the copy lacks: {lacking}")
        after = service.recorded(workloads, 300, artifact=False)
        until(lambda: export_of(service, after).get("state") == "done", "exported")
        check(glob.glob(os.path.join(target, "*", after, "profile", "tables", "_manifest.json")), "tables of a session after it")
        equal(sum("AGG-EXPORT-FORMATS" in line for line in service.daemon.text().splitlines()), 1, "lines in the log")


for name in sys.argv[1:] or ("before", "folder", "s3", "session", "hanging"):
    {"before": merged_before, "folder": into_folder, "s3": into_s3, "session": by_session, "hanging": hanging}[name]()
finish()
