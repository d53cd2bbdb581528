"""Generates jobs whose last collective stays open for a known cause, and checks whom the report
names. Prints for each kind of job how many answers are right, absent and wrong. Usage:
absence_oracle.py JOBS; MRD_SEED=n repeats one job of each kind, MRD_SEED="n kind" one job."""
import collections
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

MERIDIAN = os.path.join(os.environ.get("MERIDIAN_BUILD") or "build", "bin", "meridian")
US, MS, ZERO = 1_000, 1_000_000, 1_750_000_000 * 10**9
PERIOD = 10 * MS


class Job:
    """Kineto's files of n ranks: steps of a kernel, a collective of each half (unless `halves` is None) and one of all ranks. In the last
    step, one of the two stays open. `group` has its members, `at` is its begin, and `end` is the end of all recordings."""

    def __init__(self, r, is_running=False):
        self.r, self.n, self.steps = r, r.choice([2, 3, 4, 8]), r.randint(6, 14)
        self.halves = self.n > 3 and r.random() < 0.6
        self.is_half = self.halves and r.random() < 0.5
        self.group = list(range(self.n // 2)) if self.is_half else list(range(self.n))
        self.at = (self.steps + 1) * PERIOD
        self.end = self.at + (1 if is_running else r.choice([400, 1500, 4000, 20000])) * MS
        self.is_aborted = is_running or r.random() < 0.3  # collectives that hang end when the job is aborted, at `end`
        self.has_host = r.random() < 0.7
        self.ahead = r.choice([30 * US, 8 * MS])  # how long before a device span the host launches it
        self.sure = set()  # ranks of which the recording proves that they did not enter
        self.records = [[] for _ in range(self.n)]  # (begin, end or None, on the device, record)
        self.launched = [0] * self.n
        if r.random() < 0.5:  # the recording says when it ended
            for rank in range(self.n):
                self.span(rank, 4000 + rank, 1, self.end + 5 * MS, self.end + 5 * MS, "Record Window End", "")
        for step in range(self.steps):
            self.step(step)
        for rank in range(self.n):
            self.kernel(rank, self.at - 6 * MS, self.at - 3 * MS)
            if self.halves and not (self.is_half and rank in self.group):
                self.half(rank, self.at - 2 * MS + rank, self.at - MS)

    def step(self, step):
        at = (step + 1) * PERIOD
        begins = [at + self.r.randrange(200 * US) for _ in range(self.n)]
        for rank in range(self.n):
            self.kernel(rank, at - 6 * MS, at - 3 * MS)
            if self.halves:
                self.half(rank, at - 2 * MS + rank, at - MS)
            self.collective(rank, 20, begins[rank], max(begins) + 300 * US, "dp", range(self.n))
            if self.has_host:
                self.span(rank, 4000 + rank, 1, at - 7 * MS, at + MS, f"ProfilerStep#{step}", "user_annotation")

    def half(self, rank, begin, end):
        members = range(self.n // 2) if rank < self.n // 2 else range(self.n // 2, self.n)
        self.collective(rank, 21, begin, end, "tp", members)

    def span(self, rank, pid, tid, begin, end, name, cat, **args):
        """`end` is None for a span that does not end."""
        at = begin + ZERO
        record = {"ph": "B" if end is None else "X" if end > begin else "i", "pid": pid, "tid": tid, "ts": f"@{at // 1000}.{at % 1000:03}@", "cat": cat, "name": name, "args": args}
        if record["ph"] == "X":
            record["dur"] = f"@{(end - begin) // 1000}.{(end - begin) % 1000:03}@"
        self.records[rank].append((begin, end, pid < 4000, record))

    def device(self, rank, stream, begin, end, name, **args):
        self.launched[rank] += 1
        number = self.launched[rank]
        if self.has_host:
            self.span(rank, 4000 + rank, 2, begin - self.ahead, begin - self.ahead + 10 * US, "cudaLaunchKernel", "cuda_runtime", correlation=number)
        self.span(rank, rank, stream, begin, end, name, "kernel", device=rank, stream=stream, correlation=number, **args)

    def kernel(self, rank, begin, end):
        self.device(rank, 7, begin, end, "gemm")

    def collective(self, rank, stream, begin, end, group, members, operation="allreduce", elements=1 << 20):
        kernel = {"allreduce": "AllReduce_Sum_f32_RING_LL", "allgather": "AllGather_RING_LL"}[operation]
        self.device(rank, stream, begin, end, f"ncclDevKernel_{kernel}(x)",
                    **{"Collective name": operation, "Group size": len(members), "Process Group Name": group, "Process Group Ranks": str(list(members)),
                       "In msg nelems": elements, "dtype": "Float"})

    def enter(self, rank, begin=None, **other):
        """The rank enters the last collective and does not leave it."""
        begin = self.at + self.r.randrange(200 * US) if begin is None else begin
        self.collective(rank, 21 if self.is_half else 20, begin, self.end if self.is_aborted else None, "tp" if self.is_half else "dp", self.group, **other)

    def cut(self, rank, at, is_flush):
        """Removes what the recording of a rank has after `at`: events that began later, and ends after it. With `is_flush`, only of the device."""
        kept = []
        for begin, end, on_device, record in self.records[rank]:
            if begin <= at and (end is None or end <= at) or (is_flush and not on_device):
                kept.append((begin, end, on_device, record))
        self.records[rank] = kept

    def launch_more(self, rank):
        """The host launches kernels that wait behind the last collective."""
        for i in range(3 if self.has_host else 0):
            self.launched[rank] += 1
            self.span(rank, 4000 + rank, 2, self.at + i * US, self.at + (i + 1) * US, "cudaLaunchKernel", "cuda_runtime", correlation=self.launched[rank])

    def wait_on_host(self, rank):
        """The thread of the host waits for its device from the last collective on."""
        if self.has_host:
            self.launch_more(rank)
            self.span(rank, 4000 + rank, 1, self.at + MS, self.r.choice([None, self.end]), "cudaDeviceSynchronize", "cuda_runtime")

    def shows_wait(self):
        """Returns whether a rank of the group has an event long after the begin of the last collective. Else nothing shows that it stands still."""
        return any((begin if end is None else end) > self.at + 3 * MS for rank in self.group for begin, end, *_ in self.records[rank])

    def others(self, *ranks):
        return [rank for rank in self.group if rank not in ranks]

    def view(self):
        """Returns the ranks that the verdict names with certainty, those that it names as possible, and its text."""
        with tempfile.TemporaryDirectory() as work:
            for rank, records in enumerate(self.records):
                labels = [{"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}} for pid, label in ((4000 + rank, "CPU"), (rank, f"GPU {rank}"))]
                document = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.n}, "traceEvents": labels + [record for *_, record in records]}
                with open(os.path.join(work, f"rank{rank}.json"), "w", encoding="utf-8") as f:
                    f.write(json.dumps(document).replace('"@', "").replace('@"', ""))
            subprocess.run([MERIDIAN, "view", "-d", work, "--same-clock", "--output-dir", os.path.join(work, "out"), "--output-format", "report-json,report-text"], capture_output=True, check=False)
            with open(os.path.join(work, "out", "report.json"), encoding="utf-8") as f:
                report = json.load(f)["report"]
            with open(os.path.join(work, "out", "report.txt"), encoding="utf-8") as f:
                text = " ".join(f.read().split())
        text = text[text.find("Verdict"):].split("Coverage")[0].split("Open at the end")[0].split("Where the time")[0]
        kind = report["verdict"]["kind"]
        named = {int(rank) for rank in re.findall(r"\brank (\d+)\b", text)}
        certain = named if kind not in ("indistinguishable", "sometimes") and "recording ended earlier" not in text else set()
        if "absent" in report["verdict"]:
            certain = {report["workers"][one["worker"]]["rank"] for one in report["verdict"]["absent"] if one["kind"] != "unseen"}
        return certain, named - certain, f"{kind}: {text[:700]}"


def absent(job, r):
    """One or two ranks never enter. Their recordings go on: their devices or hosts do something else."""
    gone = set(r.sample(job.group, r.choice([1, 2]) if len(job.group) > 2 else 1))
    for rank in job.others(*gone):
        job.enter(rank)
        job.wait_on_host(rank)
    for rank in sorted(gone):
        what = r.choice(["kernel", "open kernel", "kernels", "host", "open host", "hosts"])
        if what == "kernel":
            job.kernel(rank, job.at - 2 * MS, job.end - MS)
        elif what == "open kernel":
            job.kernel(rank, job.at - 2 * MS, None)
        elif what == "host" or what == "open host":
            job.span(rank, 4000 + rank, 1, job.at - MS, None if what == "open host" else job.end, "DataLoader.next", "user_annotation")
        else:
            for i in range(20):
                begin = job.at + i * (job.end - job.at) // 20
                if what == "kernels":
                    job.kernel(rank, begin, begin + 5 * MS)
                else:
                    job.span(rank, 4000 + rank, 1, begin, begin + 5 * MS, "aten::item", "cpu_op")
        if (what in ("kernel", "kernels") and (job.has_host or not job.is_aborted)) or (what in ("host", "hosts") and job.has_host):
            job.sure.add(rank)
    return gone, gone, set()


def late(job, r):
    """One rank enters long after the others, just before the recordings end. All are inside at the end."""
    slow = r.choice(job.group)
    begin = job.end - r.randrange(1, 60) * (job.end - job.at) // 200
    for rank in job.others(slow):
        job.enter(rank)
    if r.random() < 0.7:
        job.kernel(slow, job.at - 2 * MS, begin - US)
    job.enter(slow, begin)
    return {slow}, {slow}, set()


def died(job, r):
    """The events of one rank end between two collectives."""
    dead = r.choice(job.group)
    for rank in job.others(dead):
        job.enter(rank)
        job.wait_on_host(rank)
    job.cut(dead, job.at - r.choice([MS // 2, 2 * MS + 500 * US, 4 * MS]) if not job.halves else job.at - MS // 2, False)
    return {dead}, {dead}, {dead}


def different(job, r):
    """One rank is in another operation of the group, or in one of another size."""
    other = r.choice(job.group)
    for rank in job.others(other):
        job.enter(rank)
    for rank in job.group:
        if r.random() < 0.5:
            job.launch_more(rank)
    job.enter(other, job.at + r.choice([-MS, 0, 5 * MS]) + r.randrange(100 * US), **r.choice([{"operation": "allgather"}, {"elements": 1 << 10}]))
    return ({other} if len(job.group) > 2 else set()), {other}, set()


def crossed(job, r):
    """All wait in the collective of all, but one rank waits in that of its half, or the reverse. The order of both is not known."""
    job.is_half, job.group = False, list(range(job.n))
    other = r.choice(job.group)
    half = range(job.n // 2) if other < job.n // 2 else range(job.n // 2, job.n)
    for rank in job.others(other):
        job.enter(rank)
    job.collective(other, 21, job.at + r.choice([-MS // 2, 0, 5 * MS]), job.end if job.is_aborted else None, "tp", half)
    return set(), {other}, {other}


def cut_transport(job, r):
    """All ranks are inside and the transport hangs, but the recording of one ends earlier."""
    short = r.choice(job.group)
    for rank in job.group:
        job.enter(rank)
        job.wait_on_host(rank)
    job.cut(short, job.at - r.choice([MS // 2, 2 * MS, PERIOD, 3 * PERIOD, r.randrange(5 * PERIOD)]), r.random() < 0.5)
    return set(), set(), {short}


def cut_absent(job, r):
    """One rank is absent and works on. The recording of another one, which is inside, ends earlier."""
    if len(job.group) < 3:
        return cut_transport(job, r)
    gone, short = r.sample(job.group, 2)
    for rank in job.others(gone):
        job.enter(rank)
        job.wait_on_host(rank)
    for i in range(20):
        begin = job.at + i * (job.end - job.at) // 20
        job.kernel(gone, begin, begin + 5 * MS)
    job.cut(short, job.at - r.choice([MS // 2, 2 * MS, PERIOD, 3 * PERIOD, r.randrange(5 * PERIOD)]), r.random() < 0.5)
    return {gone}, {gone}, {short}


def cut_part(job, r):
    """All ranks are inside. The recording of one lacks its part, because only kernels that ended were written, but its device works on."""
    short = r.choice(job.group)
    if not job.is_aborted and not job.has_host:
        return cut_transport(job, r)
    for rank in job.group:
        job.enter(rank)
        job.wait_on_host(rank)
    del job.records[short][max(i for i, (_, _, on_device, _) in enumerate(job.records[short]) if on_device)]
    for i in range(20):
        begin = job.at + i * (job.end - job.at) // 20
        job.kernel(short, begin, begin + 5 * MS)
    return set(), set(), {short}


def cut_running(job, r):
    """Nothing hangs. All leave the last collective and begin the next one, but one recording ends some steps earlier."""
    short = r.choice(range(job.n))
    job.is_half, job.group = False, list(range(job.n))
    for rank in job.group:
        job.enter(rank)
        job.kernel(rank, job.end + MS, job.end + 3 * MS)
        if r.random() < 0.7:
            job.collective(rank, 20, job.end + 4 * MS, None, "dp", job.group)
    job.cut(short, job.at - r.randrange(5 * PERIOD), r.random() < 0.5)
    return set(), set(), {short}


def transport(job, r):
    """All ranks enter at the usual times, or one a little later, and none leaves."""
    slow = r.choice(job.group)
    for rank in job.group:
        job.enter(rank, job.at + r.choice([100 * US, 2 * MS, 20 * MS]) if rank == slow else None)
        job.wait_on_host(rank)
    return set(), set(), {slow}


def answer(kind, seed):
    """`want`: who should be named; `may`: who may be named with certainty; `possible`: who may be named as possible."""
    r = random.Random(f"{kind.__name__} {seed}")
    job = Job(r, kind is cut_running)
    want, may, possible = kind(job, r)
    if kind in (absent, died) and not job.shows_wait():
        want = set()
    certain, unsure, text = job.view()
    grade = "wrong" if certain - may or unsure - possible - may else "right" if want <= certain | unsure and job.sure <= certain else "silent"
    return kind.__name__, grade, f"seed {seed}: {job.n} ranks, group {job.group}, want {want}, certain {certain}, unsure {unsure}: {text}"


KINDS = (absent, late, died, different, crossed, cut_transport, cut_absent, cut_part, cut_running, transport)
only = (os.environ.get("MRD_SEED") or "").split()
kinds = [kind for kind in KINDS if len(only) < 2 or kind.__name__ == only[1]]
seeds = [int(only[0])] if only else range(int(sys.argv[1]))
counts = collections.Counter()
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for kind, grade, text in pool.map(lambda job: answer(*job), [(kind, seed) for kind in kinds for seed in seeds]):
        counts[kind, grade] += 1
        if grade != "right" or only:
            print(f"{grade}: {kind}, {text}")
for kind in kinds:
    print(f"{kind.__name__:14}", *(f"{grade} {counts[kind.__name__, grade]:4}" for grade in ("right", "silent", "wrong")))
sys.exit(sum(counts.values()) > sum(n for (_, grade), n in counts.items() if grade == "right"))
