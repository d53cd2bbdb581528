"""Tests every limit of the aggregator with real agents. At the limit it must delay or refuse with a
clear state, recover, and lose nothing without counting it. disks.py tests the disk's reserve and
the spool, artifacts.py the removal of old sessions."""
import json
import os

from lib import Cluster, check, equal, equation, finish, need_daemons, until
from wait import pace

need_daemons()


def limited(c, name):
    return c.metric('meridian_limited_total{limit="%s"}' % name)


def ready(c, nodes=1, **options):
    c.aggregator(**options)
    until(c.answers, "the aggregator answers")
    for i in range(nodes):
        c.agent(i, watch=c.folder(f"capture{i}"), stable="200ms")
    until(lambda: len(c.connected()) == nodes, "all agents are connected")


def started(c, *options):
    """A session; control connections may come back later than those of data."""
    out = until(lambda: c.run("start", "--json", *options, want=None)[0], "a session starts")
    id = json.loads(out)["id"]
    c.begun(id)
    return id


def rates():
    """Events and artifacts are slowed down, by agent and in total, and arrive."""
    with Cluster(node_timeout="60s") as c:
        ready(c, 2, agent_rate="100K")
        id = started(c, "--require", "all")
        w = [c.workload(i, text=400) for i in range(2)]

        def burst(limit, word):
            for _ in range(6):  # in frames of their own
                for one in w:
                    one.emit(150)
                pace(0.25)
            with open(os.path.join(c.folder("capture0", "i-test0_pid_7"), limit + ".ntff"), "wb") as f:
                f.write(os.urandom(200000))

            def more(n):  # so that it holds back still, however late this is and however slow they were
                for one in w:
                    one.emit(n)
                return True
            until(lambda: (limited(c, limit) or 0) > 3 or not more(150), f"{limit} holds back")

            def shown():
                more(60)
                return c.nodes().get("i-test0", {}).get("limited_by") == limit and f" by {limit}" in c.run("nodes", "--interval", "0")[0]
            until(shown, f"the node's state names the limit, and `meridian nodes` shows it: {limit}")
            until(lambda: c.session(id).get("events") == sum(one.all for one in w), "all events arrive", 300)
            until(lambda: [a["complete"] for a in c.session(id)["artifacts"]] == [True] * word, "the file arrives", 120)

        burst("agent-rate", 1)
        check("limit=agent-rate" in c.daemon.text(), "the log says it")
        c.daemon.end()
        c.aggregator(total_rate="200K")
        until(lambda: len(c.connected()) == 2, "both are back")
        burst("total-rate", 2)
        c.daemon.end()
        c.aggregator()
        until(lambda: len(c.connected()) == 2, "both are back")
        c.within_session(id)
        equation(c.stop(id), "rates")


def agents():
    """One more than may connect, or be remembered, waits and is told why; it comes in when there is room."""
    for option, name in (({"max_connections": 1}, "max-connections"), ({"max_nodes": 1, "node_forget": "1s"}, "max-nodes")):
        with Cluster() as c:
            ready(c, 1, **option)
            second = c.agent(1)
            until(lambda: "AGT-HELLO-REFUSED" in second.text() and f"--advanced.{name}" in second.text(), f"the second agent hears of --advanced.{name}")
            equal((c.connected(), c.daemon.running()), (["i-test0"], True), "who is connected")
            until(lambda: (limited(c, name) or 0) > 0 and c.metric('meridian_limit{limit="%s"}' % name) == 1, "metrics")
            c.agents[0].kill()
            until(lambda: c.connected() == ["i-test1"], "the second comes in when the first is gone")
            c.run("record", "--duration", "100ms", "--no-fetch", want=None)
            equal(sorted(c.nodes()), ["i-test1"] if name == "max-nodes" else ["i-test0", "i-test1"], "nodes that are remembered")


def sessions():
    """Open sessions, sessions in the store, sessions of one node: each refusal says what to do, and holds no longer than it must."""
    with Cluster() as c:
        ready(c, 1, max_open_sessions=1, max_sessions=2)
        one = started(c)
        check("--advanced.max-open-sessions" in c.run("start", want=1)[1], "one more open session is refused")
        c.stop(one)
        two = started(c)
        c.stop(two)
        check("--advanced.max-sessions" in c.run("start", want=1)[1], "one more session in the store is refused")
        equal((limited(c, "max-open-sessions"), limited(c, "max-sessions")), (1, 1), "metrics")
        c.delete(one)
        until(lambda: started(c), "a session starts when one was deleted")
    with Cluster(lead="50ms") as c:
        ready(c, 1, max_open_sessions=20)
        for _ in range(18):  # those that are over make room
            c.run("record", "--duration", "50ms", "--no-fetch", empty=True)
        open_ones = []
        while len(open_ones) < 16:  # the last ones that were over wait for two seconds
            out = c.run("start", "--json", want=None)[0]
            open_ones += [json.loads(out)["id"]] if out else []
        err = c.run("start", want=1)[1]
        check("at most 16 sessions at one time" in err, f"a node's own limit: {err}")
        c.begun(open_ones[-1])
        c.run("stop", open_ones[0], empty=True)
        c.run("stop", started(c), empty=True)


def session_size():
    """A session that grows too large is stopped as if somebody had: what its nodes hold still comes."""
    with Cluster() as c:
        ready(c, 1, session_size="300K")
        id = started(c)
        w = c.workload(0, text=400)
        w.run(2)
        until(lambda: c.session(id).get("stop_requested"), "it is stopped")
        w.pause()
        until(lambda: c.session(id).get("state") == "complete", "it is complete")
        doc = c.session(id)
        check("--session-size" in doc["message"], f"the session says why: {doc['message']}")
        equal(limited(c, "session-size"), 1, "metric")
        equation(doc, "session size", dropped=None)
        equal({d["cause"] for d in doc["nodes"][0]["counters"]["drops"]} - {"not-recorded"}, set(), "causes of drops")
        check("--session-size" in c.run("sessions")[0], "`meridian sessions` shows it")
        c.stop(started(c))


for test in (rates, agents, sessions, session_size):
    test()
finish()
