"""A made-up job for the notebooks: four ranks of a data-parallel training, as their frameworks would trace them. Rank 2 computes slower and
comes late to its collectives; every rank's clock is wrong by another amount, as those of four machines are. Equal seeds give equal files."""
import json
import os
import random
import subprocess
import sys

RANKS, STEPS = 4, 30
LATE, LATE_NS = 2, 2_000_000  # this rank, by so much in each step
OFFSET_NS = (0, 2_500_000, -1_200_000, 700_000)  # what each rank's clock is wrong by


def write(folder, seed=1):
    """Writes rank<N>.json and returns their paths."""
    r, os_join = random.Random(seed), os.path.join
    os.makedirs(folder, exist_ok=True)
    events = {rank: [{"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}}] for rank in range(RANKS)}
    at = 1_700_000_000_000_000_000
    for step in range(STEPS):
        begin, ready, length = at, [], r.uniform(0.6, 1.6)  # batches are of different lengths
        for rank in range(RANKS):
            forward = int(2_000_000 * length * (1 + 0.01 * r.gauss(0, 1))) + (LATE_NS if rank == LATE else 0)
            ready.append((begin + 50_000, forward))
        end = 0
        for bucket in range(3):
            arrive = [max(end, b + d + int(300_000 * length) * bucket) + r.randrange(20_000) for b, d in ready]
            end = max(arrive) + 250_000
            for rank in range(RANKS):
                span(events[rank], rank, "ncclKernel_AllReduce_RING_LL_Sum_float", arrive[rank], end - arrive[rank] + r.randrange(2_000), 8,
                     {"Collective name": "allreduce", "Group size": RANKS, "In msg nelems": 1 << 20, "Process Group Name": "0",
                      "Process Group Ranks": str(list(range(RANKS)))})
        for rank, (b, d) in enumerate(ready):
            span(events[rank], rank, "gemm", b, d, 7)
            span(events[rank], rank, "optimizer", end + 20_000, 400_000, 7)
            user(events[rank], rank, f"ProfilerStep#{step}", begin, end + 450_000 - begin)
        at = end + 500_000
    paths = []
    for rank in range(RANKS):
        paths.append(os_join(folder, f"rank{rank}.json"))
        with open(paths[-1], "w") as f:
            json.dump({"distributedInfo": {"rank": rank, "world_size": RANKS}, "traceEvents": events[rank]}, f)
    return paths


def shown(rank, ns):
    """Microseconds as this rank's clock shows them, exact."""
    ns += OFFSET_NS[rank]
    return f"{ns // 1000}.{ns % 1000:03d}"


def span(to, rank, name, begin, dur, stream, more=None):
    to.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": shown(rank, begin), "dur": f"{dur // 1000}.{dur % 1000:03d}",
               "args": {"device": 0, "stream": stream, **(more or {})}})


def user(to, rank, name, begin, dur):
    to.append({"ph": "X", "cat": "user_annotation", "name": name, "pid": 9, "tid": 9, "ts": shown(rank, begin), "dur": f"{dur // 1000}.{dur % 1000:03d}"})


def profile(folder, *options):
    """meridian view of the four files: a folder for meridian.open."""
    subprocess.run(["meridian", "view", *write("traces"), "-o", folder, "--output-format", "sqlite", "--force", *options], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def table(rows, *columns):
    """Prints rows as text."""
    columns = columns or tuple(rows[0])
    lines = [columns] + [tuple(f"{r[c]:,.3f}" if isinstance(r[c], float) else f"{r[c]:,}" if isinstance(r[c], int) else str(r[c]) for c in columns) for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(text.rjust(w) for text, w in zip(line, widths)).rstrip())


if __name__ == "__main__":
    print("\n".join(write(sys.argv[1])))
