"""Tests that the owner of a job can use what the scheduler's prolog provides. The real prolog
writes a token and the job's file, and the job is recorded. Its user lists, reads, fetches and
deletes the session with /etc/meridian/client.json and without options. Jobs of another user must
not be visible."""
import json
import os
import subprocess

from lib import SOURCE, check, check_ticks, equal, finish, need_daemons, run, ticks_in, until
from service import TOKENS, Service

need_daemons()
PROLOG = os.path.join(SOURCE, "deploy/slurm/prolog.d/50_meridian.sh")
UID = os.getuid()


def prolog(c, job, uid, user):
    """slurmd runs it as root on the node; without root for a job of this user only."""
    env = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(uid), "SLURM_JOB_USER": user, "SLURM_CLUSTER_NAME": "trn", "SLURM_JOB_COMMENT": "meridian=stream",
           "MERIDIAN_JOB_DIR": c.folder("jobs0"), "MERIDIAN_OWNER_DIR": c.folder("owner"), "MERIDIAN_JOB_COMMENT": "no"}
    p = subprocess.run(["sh", PROLOG], env=env, capture_output=True, text=True, timeout=60)
    equal(p.returncode, 0, f"the prolog of job {job}: {p.stderr}")


def ended(c, job):
    path = os.path.join(c.folder("jobs0"), str(job))
    text = open(path).read()
    with open(path + ".new", "w") as f:
        f.write(text + "ended=1\n")
    os.rename(path + ".new", path)


def token_file(c, uid):
    return c.path("owner", str(uid))


def record(c, job, uid, user):
    """A job with its session; the workload and the session's id."""
    prolog(c, job, uid, user)
    w = c.workload(0, more={"SLURM_JOB_ID": str(job), "SLURM_CLUSTER_NAME": "trn"})
    w.emit(3000)
    w.tell("")
    w.p.stdin.close()
    w.end()
    ended(c, job)
    listed = lambda: c.read(f"/api/v1/sessions?job={job}").json()["sessions"]
    check(until(lambda: [s["state"] for s in listed()] == ["complete"], f"the session of job {job} is complete", 90), f"job {job}")
    return w, listed()[0]["id"]


with Service(lead="100ms") as c:
    os.chmod(c.folder("jobs0"), 0o755)
    c.aggregator()
    until(c.answers, "the aggregator answers")
    c.agent(0, job_dir=c.folder("jobs0"))
    until(c.connected, "the agent is connected")
    w, mine = record(c, 4711, UID, "alice")
    theirs = c.run_json("start", "--name", "theirs", "--duration", "100ms")["id"]

    st = os.stat(token_file(c, UID))
    equal((st.st_mode & 0o777, st.st_uid), (0o400, UID), "the token is its user's, to read")
    token = open(token_file(c, UID)).read().strip()
    equal(c.read("/api/v1/self", token=token).json(), {"role": "owner", "may": ["list", "read", "delete"]}, "who it is")
    equal([s["id"] for s in c.read("/api/v1/sessions", token=token).json()["sessions"]], [mine], "its sessions")
    for path in (f"/api/v1/sessions/{theirs}", f"/api/v1/sessions/{theirs}/profile", "/api/v1/sessions/20200101-000000-0000"):
        equal(c.read(path, token=token).status, 404, f"{path} as owner")
    for path in ("/metrics", "/api/v1/nodes", "/api/v1/models"):
        equal(c.read(path, token=token).status, 403, f"{path} as owner")
    equal(c.ask("POST", f"/api/v1/sessions/{mine}/merge", token=token).status, 403, "an owner merges nothing")
    check(token not in c.read(f"/api/v1/sessions/{mine}").body.decode() and "owner_keys" not in c.read(f"/api/v1/sessions/{mine}").body.decode(), "no key in the manifest that is sent")

    # ---- The command, with nothing but the file that the site wrote ----
    config = c.path("client.json")
    def site(mode=0o644, **more):
        with open(config, "w") as f:
            json.dump({"server": f"http://{c.http}", "token-file": c.path("owner", "{uid}"), **more}, f)
        os.chmod(config, mode)
    site()
    env = {k: v for k, v in c.env.items() if not k.startswith("MERIDIAN_")}
    env.update(MERIDIAN_CLIENT_CONFIG=config, HOME=c.folder("home"))
    tell = lambda *words, want=0, **more: run(*words, env={**env, **more}, want=want)
    equal([s["id"] for s in json.loads(tell("sessions", "--json")[0])["sessions"]], [mine], "meridian sessions")
    tell("fetch", mine, "-o", c.path("fetched"), "--format", "json")
    check_ticks(ticks_in(c.path("fetched", "system_profile.json")), {("i-test0", w.pid): w}, "the owner's profile")
    check("there is no session" in tell("status", theirs, want=1)[1], "another's session is not there")
    check("may not do that" in tell("nodes", want=1)[1], "nodes are not for owners")
    # A token that nobody named goes to the site's server only.
    wants = "requires a token"
    check(wants in tell("sessions", "--server", f"http://localhost:{c.http.rsplit(':', 1)[1]}", want=1)[1], "another server does not get it")
    check(wants not in "".join(tell("sessions", MERIDIAN_SERVER=f"http://{c.http}")), "the same server, named")
    site(0o666)
    check("others than root and you may write" in tell("sessions", want=1)[1], "a file that others may write is refused")
    site(servr="x")
    check("servr" in tell("sessions", want=2)[1], "an unknown member is named")
    with open(config, "w") as f:
        json.dump({"server": f"http://{c.http}"}, f)
    check(wants in tell("sessions", want=1)[1], "no token anywhere")
    os.makedirs(c.path("home", ".config/meridian"))
    os.link(token_file(c, UID), c.path("home", ".config/meridian/token"))
    equal([s["id"] for s in json.loads(tell("sessions", "--json")[0])["sessions"]], [mine], "the token in the home")
    os.unlink(c.path("home", ".config/meridian/token"))
    site()

    # ---- All that is open is stopped by who may stop it ----
    until(lambda: c.session(theirs)["state"] == "complete", "theirs is over")
    left = c.run_json("start", "--name", "open")["id"]
    _, err = run("stop", "--all", env={**c.env, "MERIDIAN_TOKEN_FILE": c.secret("read.token", TOKENS["read"])}, want=1)
    check(f"session {left}: " in err and "may not do that" in err, f"a reader stops nothing: {err}")
    equal(c.session(left)["state"], "recording", "after a reader's stop --all")
    equal([s["id"] for s in json.loads(c.run("stop", "--all", "--json", empty=True)[0])["sessions"]], [left], "what an operator stops")

    # ---- Its own to delete; then the token opens nothing any more ----
    tell("sessions", "--name", "theirs", "--delete", want=None)
    equal(c.read(f"/api/v1/sessions/{theirs}").status, 200, "another's session is not deleted")
    tell("sessions", "--job", "4711", "--delete")
    until(lambda: c.read(f"/api/v1/sessions/{mine}").status == 404, "deleted")
    until(lambda: c.read("/api/v1/sessions", token=token).status == 401, "unknown again")
    log = c.daemon.text() + c.agents[0].text()
    check(token not in log and not any(t in log for t in TOKENS.values()), "no token in a log")
finish()
