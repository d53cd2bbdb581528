"""An independent account of random profiles, for tests of `meridian report`. A profile is made up from what happens: who computes,
copies, launches and meets whom when; so the truth is known before anything is recorded. The account walks through every
nanosecond and asks what goes on in it. Shares no code and no table with the report."""
import random

RANKS = 4


class Span:
    """One span: of a rank's device on one of its streams, or of its host."""

    def __init__(self, rank, kind, begin, end, name, **more):
        self.rank, self.kind, self.begin, self.end, self.name = rank, kind, begin, end, name
        self.__dict__.update(more)


class Meeting:
    """A collective: who is in its group, whose parts were recorded."""

    def __init__(self, ranks, operation, elements, synchronises):
        self.ranks, self.operation, self.elements, self.synchronises = ranks, operation, elements, synchronises
        self.parts = {}


# Names of kernels that libraries and servers run, by operation.
COLLECTIVES = {
    "allreduce": ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs4K)",
                  "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, T*)", "_ZN11quickreduce27allreduce_prototype_twoshotI6__halfEEvPf",
                  "hcom_allReduce__964_0_1", "oneccl_allreduce_pcie<half, RingTransmit>", "void (anonymous namespace)::two_shot_all_reduce_kernel<float>(int)",
                  "flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, float>", "triton_dist_all_reduce_push", "void multimem_all_reduce_kernel<float, 16>(int)"],
    "_allgather_base": ["ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclSymDevKernel_AllGather_STMC(ncclSymDevArgs)", "hcom_allGather__12_3_1",
                        "void mscclpp::allgather8<float>(int)", "cp_engine_producer_all_gather_full_mesh_push"],
    "reduce_scatter": ["ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", "rcclReduceScatterKernel", "hcom_reduceScatter__063_1_1", "void aiter::reduce_scatter_cross_device_store<float, 8>(int)"],
    "broadcast": ["ncclDevKernel_Broadcast_RING_LL(x)", "hcom_broadcast__275_2_1", "void deep_ep::internode_ll::dispatch<true, 7168>(void*)", "broadcast_on_stream_kernel"],
}
# Names of kernels that compute, though some have words of communication.
COMPUTATIONS = ["gemm_f16", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)", "void cub::DeviceReduceByKeyKernel<long*>(int)",
                "triton_red_fused_add_1", "void cublasLt::splitKreduce_kernel<32, 16, int>(int)", "void flash_fwd_splitkv_combine_kernel<float>(int)",
                "void at::native::_scatter_gather_elementwise_kernel<128, 4>(int)", "ampere_sgemm_32x128_nt", "elementwise<nccl::T>"]


def made_up(seed, steps=3):
    """A training of four ranks in which each computes, copies and meets the others; times in ns from 1000 on."""
    r = random.Random(seed)
    spans, meetings = [], []
    now = [1000 + r.randrange(60) for _ in range(RANKS)]
    slow = r.randrange(RANKS)
    names = {operation: r.choice(of) for operation, of in COLLECTIVES.items()}
    unsaid = {operation for operation in COLLECTIVES if r.random() < 0.4}  # only the name of the kernel says it
    computations = r.sample(COMPUTATIONS, 5)
    groups = [tuple(range(RANKS)), (0, 1), (2, 3)]
    for step in range(steps):
        begun = list(now)
        for _ in range(r.randrange(2, 5)):
            for rank in range(RANKS):
                for _ in range(r.randrange(1, 4)):
                    long = r.randrange(5, 60) * (3 if rank == slow else 1)
                    what = r.choice(["compute", "compute", "compute", "copy"])
                    name = {"compute": r.choice(computations), "copy": "Memcpy DtoH"}[what]
                    at = now[rank] + r.choice([0, 0, r.randrange(40), r.randrange(200)])
                    launched = at - r.randrange(1, 150) if r.random() < 0.9 else None
                    spans.append(Span(rank, what, at, at + long, name, launched=launched))
                    now[rank] = at + long
                if r.random() < 0.3:
                    spans.append(Span(rank, "loading", now[rank] - 30, now[rank] + r.randrange(80), "DataLoader"))
            group = r.choice(groups)
            operation = r.choice(["allreduce", "allreduce", "_allgather_base", "reduce_scatter", "broadcast"])
            m = Meeting(group, operation, r.randrange(1, 5000), operation != "broadcast")
            m.name, m.says = names[operation], operation not in unsaid
            come = {rank: now[rank] + r.randrange(30) for rank in group}
            meetings.append(m)
            for rank, at in come.items():
                end = (max(come.values()) if m.synchronises else at) + r.randrange(20, 90)
                now[rank] = end
                if r.random() < 0.06:
                    continue  # was not recorded
                m.parts[rank] = (at, end)
                spans.append(Span(rank, "collective", at, end, m.name, meeting=m))
                if r.random() < 0.6:  # something is computed meanwhile
                    under = at + r.randrange(0, end - at)
                    spans.append(Span(rank, "compute", under, under + r.randrange(1, 80), "kernel <under> & <script> \u202eturned \u009b31m", launched=None))
                    now[rank] = max(end, under)
            if not m.parts:
                meetings.pop()
        for rank in range(RANKS):
            ends = [s.end for s in spans if s.rank == rank and s.kind != "loading"]
            now[rank] = max([now[rank]] + ends)
            spans.append(Span(rank, "step", begun[rank], now[rank], f"ProfilerStep#{step}"))
            now[rank] += r.randrange(20)
    return spans, meetings


# ---- Written as PyTorch writes them ----

BASE_US = 1_700_000_000_000_000


def stamp(ns):
    return f"{BASE_US + ns // 1000}.{ns % 1000:03d}"


def kineto(spans, rank, groups=True):
    """One rank's file, as text: times have decimals that doubles would lose. groups False: of an old PyTorch, whose kernels do
    not say of which group they are."""
    rows, flow = [], 0

    def row(cat, name, begin, end, pid, tid, args):
        inner = ", ".join(f'"{k}": {v}' for k, v in args.items())
        rows.append(f'{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {stamp(begin)}, '
                    f'"dur": {(end - begin) // 1000}.{(end - begin) % 1000:03d}, "args": {{{inner}}}}}')

    for s in spans:
        if s.rank != rank:
            continue
        if s.kind in ("step", "loading"):
            row("user_annotation", s.name, s.begin, s.end, 4000 + rank, 4000 + rank, {})
            continue
        flow += 1
        args = {"device": rank, "stream": 20 if s.kind == "collective" else 7, "correlation": flow}
        if s.kind == "collective":
            m = s.meeting
            members = len(m.ranks)
            elements = {"_allgather_base": (m.elements, m.elements * members), "reduce_scatter": (m.elements * members, m.elements)}
            into, out = elements.get(m.operation, (m.elements, m.elements))
            args |= {"Collective name": f'"{m.operation}"'} if m.says else {}
            args |= {"dtype": '"Float"', "In msg nelems": into, "Out msg nelems": out}
            args |= {"Group size": members, "Process Group Ranks": f'"{list(m.ranks)}"'} if groups else {}
        elif s.launched is not None:
            row("cuda_runtime", "cudaLaunchKernel", s.launched, s.launched + 1, 4000 + rank, 4000 + rank, {"correlation": flow})
            for ph, at, pid, tid in (("s", s.launched, 4000 + rank, 4000 + rank), ("f", s.begin, rank, 7)) if flow % 3 else ():  # numbers alone, as in a graph
                bind = ', "bp": "e"' if ph == "f" else ""
                rows.append(f'{{"ph": "{ph}", "id": {flow}, "cat": "ac2g", "name": "ac2g", "pid": {pid}, "tid": {tid}, '
                            f'"ts": {stamp(at)}{bind}}}')
        row("gpu_memcpy" if s.kind == "copy" else "kernel", s.name, s.begin, s.end, rank, args["stream"], args)
    return (f'{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {RANKS}}}, '
            f'"traceEvents": [\n' + ",\n".join(rows) + "\n]}\n")


# ---- The account ----

def without(spans, meetings, absent):
    """The same training, of which the profile lacks these ranks."""
    for m in meetings:
        m.parts = {rank: part for rank, part in m.parts.items() if rank not in absent}
    return [s for s in spans if s.rank not in absent], [m for m in meetings if m.parts]


def met_when(meetings):
    """When each collective's last part began: {meeting: time}. None: one that the group is known to have was not recorded, it
    has one part only, or it lets those leave who are done. A group is known by those who were in anything of it so far."""
    known, when = {}, {}
    for m in sorted(meetings, key=lambda m: max(at for at, _ in m.parts.values())):
        if not m.synchronises:
            when[m] = None
            continue
        known.setdefault(m.ranks, set()).update(m.parts)
        whole = len(m.parts) > 1 and set(m.parts) == known[m.ranks]
        when[m] = max(at for at, _ in m.parts.values()) if whole else None
    return when


def all_seen(meetings):
    """The collectives of whose group everybody was in this or an earlier one: nobody else can have come later."""
    known, out = {}, set()
    for m in sorted((m for m in meetings if m.synchronises), key=lambda m: max(at for at, _ in m.parts.values())):
        known.setdefault(m.ranks, set()).update(m.parts)
        if known[m.ranks] == set(m.ranks):
            out.add(m)
    return out


def instants(spans, meetings, rank):
    """For each ns of the rank's window, what goes on in it: [(ns, part, exposed as)]."""
    mine = [s for s in spans if s.rank == rank]
    device = [s for s in mine if s.kind in ("compute", "copy", "collective")]
    met, seen = met_when(meetings), all_seen(meetings)
    out = []
    for t in range(min(s.begin for s in device), max(s.end for s in device)):
        on = [s for s in device if s.begin <= t < s.end]
        kinds = {s.kind for s in on}
        how = None
        if "compute" in kinds:
            part = "both" if "collective" in kinds else "compute"
        elif "collective" in kinds:
            part = "exposed"
            running = [s.meeting for s in on if s.kind == "collective" and met[s.meeting] is not None]
            if any(met[m] <= t and m in seen for m in running):
                how = "transfer"
            else:
                how = "waiting" if any(met[m] > t for m in running) else "unknown"
        else:
            part = "copy" if "copy" in kinds else "idle"
        out.append((t, part, how))
    return out


def breakdown(spans, meetings, rank):
    parts, exposed = {}, {"waiting": 0, "transfer": 0, "unknown": 0}
    for _, part, how in instants(spans, meetings, rank):
        parts[part] = parts.get(part, 0) + 1
        if how is not None:
            exposed[how] += 1
    return parts, exposed


def queue(spans, rank):
    """Launches in flight of a rank, instant by instant: known launches, other spans, most at one time, sum over the window, instants at zero."""
    device = [s for s in spans if s.rank == rank and s.kind in ("compute", "copy", "collective")]
    first, last = min(s.begin for s in device), max(s.end for s in device)
    known = [s for s in device if getattr(s, "launched", None) is not None]
    depths = [sum(s.launched <= t < s.begin for s in known) for t in range(first, last)]
    return len(known), len(device) - len(known), max(depths), sum(depths), depths.count(0)


def trend(values, seed, orders=20000):
    """S of Mann and Kendall, its p from random orders of the values, the median slope of all pairs."""
    r = random.Random(seed)

    def s_of(v):
        return sum((b > a) - (b < a) for i, a in enumerate(v) for b in v[i + 1:])

    s, shuffled, as_large = s_of(values), list(values), 0
    for _ in range(orders):
        r.shuffle(shuffled)
        as_large += abs(s_of(shuffled)) >= abs(s)
    slopes = sorted((b - a) / (k - i) for i, a in enumerate(values) for k, b in list(enumerate(values))[i + 1:])
    return s, as_large / orders, (slopes[(len(slopes) - 1) // 2] + slopes[len(slopes) // 2]) / 2


def bandwidth(meetings):
    """By name of the kernel: [collectives with two parts, bytes, latency, what one member moves over its links]."""
    out = {}
    for m in meetings:
        if not m.synchronises or len(m.parts) < 2:
            continue
        n = len(m.ranks)
        size = 4 * m.elements * (n if m.operation in ("_allgather_base", "reduce_scatter") else 1)
        row = out.setdefault(m.name, [0, 0, 0, 0])
        row[0] += 1
        row[1] += size
        row[2] += min(end - at for at, end in m.parts.values())
        row[3] += size * (n - 1) // n * (2 if m.operation == "allreduce" else 1)
    return out


def parts_at(spans, meetings, rank):
    """{ns: part} of the rank's window; idle outside of it."""
    return {t: part for t, part, _ in instants(spans, meetings, rank)}


def last_and_middle(m):
    come = sorted((at, rank) for rank, (at, _) in m.parts.items())
    return come[-1], come[(len(come) - 1) // 2]


TIE = 100  # ns: what two stamps of one instant may differ by
KEPT = 7  # collectives of a rank that are remembered


def came_alone(m):
    """Whether one rank came last by more than two stamps of one instant may differ by."""
    come = sorted(at for at, _ in m.parts.values())
    return len(come) > 1 and come[-1] - come[-2] > TIE


def lateness(spans, meetings):
    """By rank, over the collectives that it came last to: [how many, of these without a reason, late by, {part: more than the
    one in the middle}, left the collective before so much later]."""
    out = {rank: [0, 0, 0, {}, 0] for rank in range(RANKS)}
    met = met_when(meetings)
    at = {rank: parts_at(spans, meetings, rank) for rank in range(RANKS)}
    mine = {rank: sorted(m.parts[rank] for m in meetings if rank in m.parts) for rank in range(RANKS)}

    def kept(rank, begin):
        return [part for part in mine[rank] if part[0] <= begin][-KEPT:]

    def left_near(rank, begin, near):
        """When the rank left a collective, before `begin` and nearest to `near`; its window begins like that, too."""
        return min([min(at[rank])] + [end for _, end in kept(rank, begin) if end <= begin], key=lambda end: abs(end - near))

    def left(late, last, other, middle):
        """When each of the two left the newest collective that both had left, else the one that it left last or nearest."""
        both = [(m.parts[late][1], m.parts[other][1]) for m in meetings
                if met[m] is not None and late in m.parts and other in m.parts and m.parts[late] in kept(late, last)
                and m.parts[other] in kept(other, middle) and m.parts[late][1] <= last and m.parts[other][1] <= middle]
        if both:
            return max(both)
        mine_left = left_near(late, last, last)
        return mine_left, left_near(other, middle, mine_left)

    for m in meetings:
        if not m.synchronises or not came_alone(m):
            continue
        (last, late), (middle, other) = last_and_middle(m)
        row = out[late]
        row[0] += 1
        if met[m] is None:
            row[1] += 1
            continue
        row[2] += last - middle
        starts = left(late, last, other, middle)
        for rank, begin, start, sign in ((late, last, starts[0], 1), (other, middle, starts[1], -1)):
            row[4] += sign * start
            for t in range(start, begin):
                row[3][at[rank][t]] = row[3].get(at[rank][t], 0) + sign
    return out


def critical_paths(spans, meetings):
    """Of each step of the process whose first step begins first, walking backwards: (process, [(begin, length, {part: ns},
    {rank: ns}, ns that may be waiting)])."""
    steps = [s for s in spans if s.kind == "step"]
    process = min(steps, key=lambda s: (s.begin, s.rank)).rank
    met = met_when(meetings)
    at = {rank: parts_at(spans, meetings, rank) for rank in range(RANKS)}
    met_by_all = {rank: {t for t, _, how in instants(spans, meetings, rank) if how == "transfer"} for rank in range(RANKS)}
    out = []
    for step in sorted((s for s in steps if s.rank == process), key=lambda s: s.begin):
        t, who, parts, ranks, maybe = step.end, process, {}, {}, 0
        while t > step.begin:
            waited = [(met[m], m) for m in meetings if met[m] is not None and step.begin <= met[m] < t and who in m.parts
                      and m.parts[who][0] < met[m] <= m.parts[who][1]]
            until, m = max(waited, key=lambda v: v[0]) if waited else (step.begin, None)
            for i in range(until, t):
                part = at[who].get(i, "idle")
                parts[part] = parts.get(part, 0) + 1
                maybe += part == "exposed" and i not in met_by_all[who]
            ranks[who] = ranks.get(who, 0) + t - until
            t, who = until, who if m is None else last_and_middle(m)[0][1]
        out.append((step.begin, step.end - step.begin, parts, ranks, maybe))
    return process, out


def kernels(spans):
    """By name of what devices ran: (how often, how long, ranks, lower median of the ranks' sums, the longest sum)."""
    out = {}
    for s in spans:
        if s.kind in ("compute", "copy", "collective"):
            out.setdefault(s.name, {}).setdefault(s.rank, []).append(s.end - s.begin)
    rows = {}
    for name, ranks in out.items():
        sums = sorted(sum(v) for v in ranks.values())
        rows[name] = (sum(len(v) for v in ranks.values()), sum(sums), len(sums), sums[(len(sums) - 1) // 2], sums[-1])
    return rows
