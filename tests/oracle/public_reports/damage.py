"""Cases with files that are damaged, truncated or strange, with impossible times and records, and
with the same data twice."""
import os
import re

from case import MS, S, US, row


@row("bad-escape")
def backslashes_that_are_not_escaped(case):
    view = case.view()
    case.equal(len(view.spans()), 20, "spans")
    case.says(view.said, "damaged places in texts")


@row("token-na")
def a_bare_word_costs_at_most_its_record(case):
    view = case.view()
    case.check(len(view.spans()) + view.dropped() == 20 and len(view.spans()) >= 19, f"{len(view.spans())} spans, {view.dropped()} lost")
    worker, = view.report["workers"]
    case.check(worker["parts_ns"]["compute"] in (190 * US, 200 * US), f"computation {worker['parts_ns']['compute']} ns")


@row("nccl-plugin")
def bare_words_and_hexadecimal_numbers(case):
    view = case.view()
    spans = [e for e in view.events if e.get("category") == "COLL"]
    case.equal([e["duration"] for e in spans], [50_250] * 10, "COLL spans")
    case.says(view.said, "20 places were accepted that JSON does not allow")


@row("two-arrays")
def a_second_array_behind_the_first(case):
    view = case.view()
    case.check(len(view.spans()) == 20 or len(view.spans()) == 10 and "behind" in view.said, f"{len(view.spans())} spans: {view.said}")
    case.equal(view.status, 3, "exit status")


@row("interleaved")
def two_writers_in_one_file(case):
    status, out, errors = case.meridian("report", *case.files())
    case.check(status in (1, 3), f"exit status {status}")
    case.says(errors + out, "byte ")


@row("leading-comma")
def surplus_commas_and_an_empty_object(case):
    view = case.view()
    case.equal([(d) for _, _, d in view.spans()], [47 * US], "spans")
    case.equal(view.status, 0, "exit status")


@row("jax-tpu")
def an_empty_object_at_the_end_is_no_damage(case):
    case.equal((case.view().status, case.view().dropped()), (0, 0), "exit status, records dropped")


@row("odd-fields")
def fields_of_other_types(case):
    view = case.view()
    names = {name for name, _, _ in view.spans()}
    case.check({"17", "a", "d", "e", "f", "g"} <= names, f"spans {sorted(names)}")
    case.equal([d for _, _, d in view.named("g")], [1_500], "length of g")
    case.equal([d for _, _, d in view.named("c")], [None], "c is unfinished")
    case.check(not names & {"b", "h"}, f"spans {sorted(names)}")
    case.check(view.dropped() >= 2, f"{view.dropped()} records dropped")
    case.says(view.said, "byte ")


@row("empty-gz")
def empty_files_are_named(case):
    status, out, errors = case.meridian("report", *case.files())
    case.equal(status, 3, "exit status")
    case.says(errors + out, "rank1.json.gz", "rank2.json")
    case.equal(len(case.view().spans()), 10, "kernels of rank 0")


@row("neg-dur")
def a_negative_length(case):
    view = case.view()
    worker, = view.report["workers"]
    case.equal(sum(d == 100 * US for _, _, d in view.spans()), 9, "kernels of 100 us")
    case.equal(worker["window_ns"], 9_100 * US, "window")
    case.check(view.dropped() == 2 or sum(not d for _, _, d in view.spans()) == 2, f"{view.spans()}, {view.dropped()} dropped")
    case.says(view.said, "rank0.json")


@row("ts-zero")
def records_without_a_time(case):
    view = case.view()
    worker, = view.report["workers"]
    case.check(4_300 * US <= worker["window_ns"] <= 4_500 * US, f"window {worker['window_ns']} ns")
    case.equal(worker["parts_ns"]["compute"], 2 * MS, "computation")
    case.check(re.search(r"\b(5|five) records?\b[^.]*\btime", view.said + view.report_text), f"no sentence: {view.said}")
    begin, end = view.sql("SELECT MIN(ts_ns), MAX(ts_ns + dur_ns) FROM events WHERE ts_ns > 0")[0]
    case.check(end - begin < 10 * MS and f"{begin // S} s" not in view.said, f"the summary's time: {view.said[:400]}")


@row("far-future")
def one_time_far_away(case):
    view = case.view()
    worker, = view.report["workers"]
    case.check(worker["window_ns"] < 10 * MS, f"window {worker['window_ns']} ns")
    case.equal(worker["parts_ns"]["compute"], 2 * MS, "computation")
    case.says(view.said + view.report_text, "rank0.json")


@row("starts-at-zero")
def times_that_begin_at_zero(case):
    view = case.view()
    want = [("first", 0, 5 * MS), ("second", 6 * MS, 1 * MS)]
    case.equal(view.spans(), want, "spans")
    begins = [e["ts"] for e in view.chrome]
    case.check(all(t >= 0 for t in begins), f"times of the Chrome output: {begins}")
    again = case.view(files=[os.path.join(view.folder, "system_profile.trace.json")])
    case.equal([(n, d) for n, _, d in again.spans()], [(n, d) for n, _, d in want], "the Chrome output read again")
    case.equal(again.spans()[1][1] - again.spans()[0][1], 6 * MS, "distance of the begins, read again")


@row("viztracer")
def a_file_that_counts_from_its_start(case):
    view = case.view()
    loop = next(begin for name, begin, _ in view.spans() if name.startswith("loop"))
    kernel = view.named("gemm")[0][1]
    case.check(loop - kernel == 250 or "no date" in view.said, f"the loop begins {loop - kernel} ns after the first kernel: {view.said}")


@row("dur-overrun")
def a_kernel_that_contains_others_of_its_stream(case):
    view = case.view()
    worker, = view.report["workers"]
    clipped = worker["window_ns"] < 1 * S and worker["parts_ns"]["compute"] <= 11 * MS
    case.check(clipped or "overlap" in view.report_text, f"no sentence: {view.report_text[:800]}")


@row("graph-no-kernels")
def graph_launches_whose_kernels_are_absent(case):
    case.says(case.view().report_text, "32 ", "graph launch")


@row("json-and-gz")
def one_trace_plain_and_compressed(case):
    view = case.view()
    case.equal(len(view.named("gemm")), 10, "gemm")
    case.equal(view.kernels()["gemm"]["count"], 10, "gemm in the report")
    case.says(view.said, "rank0.pt.trace.json")


@row("repeat")
def two_windows_of_each_rank(case):
    report = case.view("--same-clock").report
    case.equal([w["rank"] for w in report["workers"]], [0, 1], "workers")
    case.equal([s["count"] for s in report["steps"]], [40, 40], "steps")
    case.equal(report["totals"]["collectives"], 40, "collectives")
    case.equal([w["collectives"]["last"] for w in report["workers"]], [0, 40], "who came last")
    case.equal(report["totals"]["without_partner"], 0, "parts without a partner")


@row("mixed-dir")
def a_folder_as_a_job_leaves_it(case):
    view = case.view("-d", case.path(), files=[])
    case.equal(sorted({w["rank"] for w in view.report["workers"]}), [0, 1], "ranks")
    case.equal(view.status, 0, "exit status")
