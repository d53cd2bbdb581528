"""Cases that test who was late and why, hangs, alignment of clocks, and the comparison of two
runs."""
import re

from case import MS, S, US, row


def last(report):
    """{rank: how often it came last}"""
    return {w["rank"]: w["collectives"]["last"] for w in report["workers"]}


def offsets(view):
    """(absolute estimate, bound) in ns of the clock of each file; the bound is None where nothing is known."""
    rows = view.sql("SELECT estimate_ns, bound_ns FROM clocks WHERE name LIKE '%json'")
    return [(abs(estimate), None if bound < 0 else bound) for estimate, bound in rows]


@row("bwd-straggler")
def the_kernel_that_made_a_rank_late(case):
    view = case.view("--same-clock")
    report = view.report
    case.equal(report["totals"]["collectives"], 40, "collectives")
    case.equal(last(report)[1], 40, "rank 1 came last")
    case.equal(view.worker(1)["collectives"]["caused_ns"], 240 * MS, "waiting for rank 1")
    sentence = re.search(r"bwd_gemm[^.]*?(25(\.0)? %|1\.25)", view.report_text)
    case.check(sentence is not None, f"the reason is not said: {view.report_text[:1500]}")


@row("diff-ranks")
def a_comparison_that_lacks_a_rank(case):
    _, out, errors = case.meridian("diff", case.path("base"), case.path("new"))
    case.says(out + errors, "rank 1")
    case.check("+100" not in out, f"compares different ranks: {out[:1500]}")


@row("graph-shared")
def kernels_of_graphs(case):
    worker, = case.view().report["workers"]
    case.equal((worker["parts_ns"]["compute"], worker["window_ns"]), (30_400 * US, 37_990 * US), "computation and window")


@row("graph-shared")
def arrows_of_a_graph_form_a_fan(case):
    points = [(e["ts"], e["id"], e["ph"]) for e in case.view().chrome if e["ph"] in "stf"]
    case.equal(sum(ph == "t" for _, _, ph in points), 0, "arrows that pass through a kernel")
    case.equal(sum(ph == "f" for _, _, ph in points), 160, "arrows that end")
    ends = [id for _, id, ph in points if ph == "f"]
    case.equal(len(ends), len(set(ends)), "ids of arrows that end")


@row("half-meta")
def collectives_of_which_half_have_no_arguments(case):
    view = case.view("--same-clock")
    report = view.report
    if report["totals"]["collectives"] != 15 or "15" not in view.report_text:
        case.equal(report["totals"]["collectives"], 30, "collectives")
        case.equal(last(report), {0: 0, 1: 30}, "who came last")
        case.equal(view.worker(1)["collectives"]["caused_ns"], 30 * 200 * US, "waiting for rank 1")


@row("hang")
def a_rank_that_did_not_come(case):
    view = case.view("--same-clock")
    case.says(view.report_text, "rank 2")
    verdict = view.report_text.split("Verdict", 1)[1].split("Where the time goes", 1)[0]
    case.says(verdict, "rank 2")


@row("p2p")
def single_messages_synchronise_nothing(case):
    view = case.view("--align", "collectives")
    case.check(all(bound is None or estimate <= bound for estimate, bound in offsets(view)), f"offsets and bounds {offsets(view)}")
    case.check(case.view("--same-clock").report["verdict"]["kind"] != "late", "a rank is called late")


@row("seq-shift")
def numbers_of_collectives_align(case):
    view = case.view("--align", "collectives")
    case.check(all(estimate < 1 * MS for estimate, _ in offsets(view)), f"offsets and bounds {offsets(view)}")
    report = case.view("--same-clock").report
    case.equal(report["totals"]["collectives"], 28, "collectives")
    case.equal(report["workers"][0]["collectives"]["caused_ns"], 9 * 300 * US, "waiting for rank 0")
    case.equal(last(report), {0: 9, 1: 0}, "who came last, ties left out")


@row("two-comm-streams")
def groups_on_two_streams(case):
    report = case.view("--same-clock").report
    case.equal(report["totals"]["collectives"], 80, "collectives")
    case.equal(last(report), {0: 40, 1: 40}, "who came last")
    case.equal(sum(w["collectives"]["caused_ns"] for w in report["workers"]), 80 * 200 * US, "waiting")
    case.equal([w["parts_ns"]["exposed"] + w["parts_ns"]["both"] for w in report["workers"]], [40 * 850 * US] * 2, "collectives of a rank")


@row("two-comm-streams")
def the_reason_where_collectives_overlap(case):
    for late in (w["late"] for w in case.view("--same-clock").report["workers"]):
        parts = [ns for ns in late["parts_ns"].values() if ns is not None]
        case.check(all(abs(ns) <= late["late_ns"] for ns in parts), f"late by {late['late_ns']} ns, because of {late['parts_ns']}")


@row("warmup-skew")
def late_once_is_no_straggler(case):
    view = case.view("--same-clock")
    case.equal(view.worker(3)["collectives"]["last"], 1, "rank 3 came last, ties left out")
    case.equal(view.worker(3)["collectives"]["caused_ns"], 27 * MS, "waiting for rank 3")
    case.check(view.report["verdict"]["kind"] != "late", f"verdict {view.report['verdict']}")


@row("window-shift")
def windows_that_overlap_partly(case):
    view = case.view("--align", "collectives")
    for estimate, bound in offsets(view):
        case.check(bound is None or estimate <= bound or abs(estimate - 3600 * S) <= bound, f"offset {estimate} ns, bound {bound} ns")
    case.check(any(abs(e - 3600 * S) < MS for e, _ in offsets(view)) or "not all aligned" in view.said, f"offsets {offsets(view)}: {view.said}")


@row("window-shift-same")
def windows_that_overlap_partly_of_one_clock(case):
    totals = case.view("--same-clock").report["totals"]
    case.equal((totals["collectives"], totals["without_partner"]), (20, 20), "collectives, parts without a partner")
    view = case.view("--align", "collectives")
    case.check(all(bound is None or estimate <= bound for estimate, bound in offsets(view)), f"offsets and bounds {offsets(view)}")
