"""The slow watch with real ranks on two agents: no rank of a healthy job is named. A rank whose host code pauses in each step is named within
seconds, and the verdict is withdrawn when the rank ends."""
from faulty_job import FaultyRank
from lib import check, finish, need_daemons, need_preload, until
from service import Service
from wait import let_it_run

need_daemons()
need_preload()
AGENTS, WORLD, SLOW, HEALTHY_S = 2, 4, 2, 25

with Service(lead="100ms") as c:
    c.aggregator()
    until(c.answers, "the aggregator answers")
    for i in range(AGENTS):
        c.agent(i)
    until(lambda: len(c.connected()) == AGENTS, "the agents are connected")
    ranks = [c.keep(FaultyRank(c, 21, r, WORLD, r * AGENTS // WORLD, words=(30000, 4))) for r in range(WORLD)]
    until(lambda: min(r.steps() for r in ranks) > 20, "the job makes steps", 120)

    def lines(code):
        with open(c.path("aggregator.log")) as log:
            return [line.strip() for line in log if f" {code} " in line]

    let_it_run(HEALTHY_S)
    check(lines("AGG-SLOW") == [], f"no rank of a healthy job is named: {lines('AGG-SLOW')}")

    # ---- Half of a step more in the host code of one rank ----
    ranks[SLOW].tell("pause 1 15 x")
    until(lambda: lines("AGG-SLOW"), "a verdict about the slow rank", 60)
    line = lines("AGG-SLOW")[0]
    print(line, flush=True)
    check(f"rank {SLOW} on i-test{SLOW * AGENTS // WORLD} " in line and "verdict=host" in line, f"the rank and its part: {line}")
    check(lines("AGG-SLOW-OVER") == [], "the verdict holds")
    for r in ranks:
        r.kill()
    until(lambda: lines("AGG-SLOW-OVER"), "the verdict is withdrawn when the job ends", 60)

finish()
