"""Cases that test how a record is classified: kernels and collectives, devices and hosts,
annotations, counters, processes."""
import os

from case import MS, US, row

SYNC = "ncclDevKernel_AllReduce"


@row("ascend")
def times_are_texts_and_the_device_is_named_by_its_line(case):
    view = case.view()
    case.equal([d for _, _, d in view.named("MatMulV2")], [400_020] * 5, "lengths of the kernels")
    case.equal(view.named("MatMulV2")[0][1], 1_750_000_000_000_100_200, "begin of the first kernel")
    worker, = view.report["workers"]
    case.equal((worker["window_ns"], worker["parts_ns"]["compute"]), (4_400_024, 2_000_100), "window and computation")


@row("comm-names")
def collectives_of_many_libraries(case):
    worker, = case.view().report["workers"]
    parts = worker["parts_ns"]
    case.equal(parts["compute"], 12 * MS, "computation")
    case.equal(parts["exposed"] + parts["both"], 1 * MS, "collectives")


@row("comm-names")
def rules_of_the_user(case):
    rules = os.path.join(case.work, "rules")
    with open(rules, "w", encoding="utf-8") as f:
        f.write("# all that these GPUs do\nmessage gemm*\n")
    parts = case.view("--classify", rules).report["workers"][0]["parts_ns"]
    case.equal((parts["compute"], parts["exposed"] + parts["both"]), (0, 13 * MS), "computation and collectives")
    with open(rules, "a", encoding="utf-8") as f:
        f.write("sum gemm*\n")
    status, _, errors = case.meridian("report", *case.files(), "--classify", rules)
    case.equal(status, 2, "exit status")
    case.says(errors, "line 3", "allreduce")


@row("sym-kernel")
def symmetric_kernels_are_collectives(case):
    report = case.view("--same-clock").report
    case.equal(report["totals"]["collectives"], 20, "collectives")
    late = next(w for w in report["workers"] if w["rank"] == 1)["collectives"]
    case.equal((late["last"], late["caused_ns"]), (20, 20 * 400 * US), "rank 1 came last, and others waited for it")
    case.equal([w["parts_ns"]["exposed"] for w in report["workers"]], [20 * MS, 12 * MS], "exposed communication")


@row("gpu-annotation")
def annotations_on_a_device_are_neither_steps_nor_work(case):
    report = case.view().report
    worker, = report["workers"]
    case.equal([s["count"] for s in report["steps"]], [4], "steps")
    case.equal((worker["window_ns"], worker["parts_ns"]["compute"], worker["parts_ns"]["exposed"]), (34 * MS, 8 * MS, 4 * MS),
               "window, computation, collectives")


@row("cuda-sync")
def waiting_for_a_device_is_no_work_of_it(case):
    worker, = case.view().report["workers"]
    case.equal((worker["window_ns"], worker["parts_ns"]["compute"]), (9_100 * US, 1 * MS), "window and computation")


@row("jax-tpu")
def lines_that_say_the_same_time_count_once(case):
    worker, = case.view().report["workers"]
    parts = worker["parts_ns"]
    case.equal(worker["window_ns"], 9_900 * US, "window")
    case.equal((parts["compute"], parts["exposed"], parts["both"], parts["idle"]), (6 * MS, 2 * MS, 0, 1_900 * US), "parts")
    case.equal([d for _, _, d in case.view().named("jit_train_step(123)")], [900 * US] * 10, "modules")


@row("meta-last")
def metadata_may_stand_behind_the_events(case):
    report = case.view().report
    worker, = report["workers"]
    case.equal((worker["rank"], report["totals"]["world_size"], worker["device_idx"]), (5, 8, 3), "rank, ranks, device")
    case.equal((worker["window_ns"], worker["parts_ns"]["compute"]), (9_100 * US, 1 * MS), "window and computation")


@row("merged-in")
def ranks_that_another_tool_merged_stay_apart(case):
    view = case.view("--same-clock")
    shares = sorted((w["parts_ns"]["compute"], w["window_ns"], w["collectives"]["last"]) for w in view.report["workers"])
    if "merged" not in view.said.lower():
        case.equal([round(100 * c / w) for c, w, _ in shares], [40, 50], "computation of the two devices, %")
        case.equal([last for _, _, last in shares], [10, 0], "who came last")
        case.equal(view.report["totals"]["collectives"], 10, "collectives")


@row("containers")
def processes_of_equal_numbers_stay_apart(case):
    view = case.view("--same-clock")
    report = view.report
    case.equal([(w["parts_ns"]["compute"], w["collectives"]["last"]) for w in report["workers"]], [(50 * MS, 0), (50 * MS, 10)],
               "computation, and who came last")
    case.equal(report["workers"][1]["collectives"]["caused_ns"], 10 * 300 * US, "waiting for the second")
    case.equal(report["totals"]["collectives"], 10, "collectives")
    case.equal(view.sql("SELECT COUNT(*) FROM events GROUP BY process_key ORDER BY 1"), [(30,), (30,)], "events of each process")


@row("containers")
def processes_of_equal_numbers_have_names(case):
    lines = case.view("--same-clock").text("report.txt").split("Who was late", 1)[1].splitlines()[1:3]
    case.check("trace-host0" in lines[0] and "trace-host1" in lines[1], f"who was late: {lines}")


@row("counters")
def every_series_of_a_counter(case):
    view = case.view()
    found = {}
    for c in view.counters:
        series = (c["process_id"], c["name"].split()[-1])
        found.setdefault(series, []).append(int(c["value"]))
    case.equal(found, {("3", "AIC"): [1, 4, 7], ("3", "AIV"): [2, 5, 8], ("3", "MIX"): [3, 6], ("4", "AIC"): [9],
                       ("4", "bytes"): [2**64 - 1]}, "samples")
    case.equal(view.dropped(), 2, "records without a value")


@row("big-int")
def arguments_beyond_64_bits(case):
    view = case.view()
    case.equal(len(view.spans()), 3, "kernels")
    case.check("12715772615376301750" in view.text("system_profile.json"), "the number above 2^63 is not exact")
    with open(case.path("trace.json"), encoding="utf-8") as f:
        huge = next(word for word in f.read().replace("}", " ").replace(",", " ").split() if word.isdigit() and int(word) >= 2**64)
    case.check(huge in view.text("system_profile.json"), "the number above 2^64 is neither exact nor a text")


@row("flow-twice")
def an_arrow_that_begins_twice(case):
    view = case.view()
    ends = [e for e in view.events if "end" in e.get("flow_dir", [])]
    case.equal([e["name"] for e in ends], ["k"], "what arrows end at")
    starts = {e["name"] for e in view.events if "start" in e.get("flow_dir", [])}
    case.check("r0" in starts and starts <= {"r0", "r1"}, f"arrows begin at {starts}")


@row("pid-reuse")
def a_process_that_changes_its_name(case):
    view = case.view()
    case.equal([s[0] for s in view.spans()], ["a", "b"], "spans")
    case.equal(view.sql("SELECT COUNT(DISTINCT process_key) FROM events"), [(1,)], "processes")
    case.equal(view.status, 0, "exit status")


@row("tie-x-be")
def begins_and_ends_at_one_time(case):
    lengths = sorted((name, length) for name, _, length in case.view().spans())
    want = [("B0", 10 * US), ("B1", 5 * US), ("BE", 10 * US), ("C0", 10 * US), ("C1", 10 * US), ("X", 10 * US)]
    case.equal(lengths, want, "spans")
    case.equal(sorted((e["name"], e["dur"]) for e in case.view().chrome), [(n, d / US) for n, d in want], "spans of the Chrome output")


@row("round-overlap")
def neighbours_that_overlap_by_less_than_a_nanosecond(case):
    view = case.view()
    want = [("wait", 1_350, 156_236), ("send", 157_536, 161_020), ("more", 318_556, 1_000)]
    case.equal(view.spans(), want, "spans")
    case.equal([e["name"] for e in view.chrome], [w[0] for w in want], "spans of the Chrome output")
    case.equal([e["ph"] for e in view.chrome], ["X"] * 3, "kinds of the Chrome output")


@row("sub-us")
def kernels_shorter_than_a_microsecond(case):
    view = case.view()
    worker, = view.report["workers"]
    case.equal((worker["window_ns"], worker["parts_ns"]["compute"]), (999_200, 200_000), "window and computation")
    case.equal({d for _, _, d in view.spans()}, {200}, "lengths")


@row("deep")
def sixty_thousand_spans_inside_each_other(case):
    view = case.view()
    case.equal(len(view.spans()), 60_000, "spans")
    case.equal(max(d for _, _, d in view.spans()), 119_999 * US, "the outermost")
    case.equal(len(view.chrome), 60_000, "spans of the Chrome output")
