"""Starts the processes of a job that get faults on request (faulty_rank.py)."""
import os
import subprocess
import sys

from lib import BUILD, Program, SOURCE, without_none


class FaultyRank(Program):
    """A rank, which is seen by agent `agent` of the cluster `c`. words: further arguments of faulty_rank.py. more: its environment."""

    def __init__(self, c, job, rank, world, agent, words=(), **more):
        library = os.path.join(BUILD, "lib", "libmeridian.so")
        self.steps_path = c.path(f"{job}.{rank}.steps")
        with open(self.steps_path, "w") as steps:
            super().__init__(c.path(f"{job}.{rank}.log"), [sys.executable, os.path.join(SOURCE, "tests", "e2e", "faulty_rank.py"), str(rank), str(world), *map(str, words)], text=True,
                             stdin=subprocess.PIPE, stdout=steps,
                             env=without_none(c.env, **{
                                 "LD_PRELOAD": library, "LD_LIBRARY_PATH": os.path.join(BUILD, "lib", "simnrt"), "MERIDIAN_LIBRARY": library,
                                 "PYTHONPATH": os.path.join(SOURCE, "python"), "MERIDIAN_RING_DIR": c.rings(agent), "MERIDIAN_ENABLE": "1", "SIMNRT_JOB": c.job(str(job)),
                                 "SIMNRT_NODE": "together", "RANK": str(rank), "WORLD_SIZE": str(world), "NEURON_RT_EXEC_TIMEOUT": "600",
                                 "NEURON_RT_VISIBLE_CORES": str(rank), "SLURM_JOB_ID": str(job), "SLURM_CLUSTER_NAME": "trn", **more}))

    def tell(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def lines(self):
        """What it printed, as lists of words, without a line that it is still writing."""
        with open(self.steps_path) as f:
            return [line.split() for line in f.read().split("\n")[:-1]]

    def steps(self):
        return next((int(words[0]) for words in reversed(self.lines()) if words[0].isdigit()), 0)

    def did(self):
        """When it obeyed a line last (wall clock, ns), 0 if it did not yet."""
        return next((int(words[-1]) for words in reversed(self.lines()) if words[0] == "did"), 0)
