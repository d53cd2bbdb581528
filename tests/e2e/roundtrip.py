"""What json and chrome say is read back as the same events; summaries agree with an independent count; the real
importer takes the chrome output without an error.
usage: roundtrip.py [small]    small: only files below 1 MB"""
import collections
import glob
import json
import os
import sys

from lib import Importer, check, data, equal, finish, run, tmp

FILES = ("hta-kineto/ns_resolution*", "hta-kineto/cupti*", "tracelens/vllm*", "tracelens/mi300*", "param-dlrm*/*.json.gz",
         "aws-neuron-docs-samples/neuron-monitor_report*", "aws-neuron-docs-samples/system_profile*")


def load(path):
    with open(path) as f:
        return json.load(f)


def without_flows(event):
    return {k: v for k, v in event.items() if k != "flow_id"}  # ids are made unique per input


def flows(event):
    return zip(event.get("flow_id", []), event.get("flow_dir", []))


def identity_free(events, fans):
    """What the chrome format keeps of events, arrows by their number. With `fans` a start counts once for each end: the
    format needs an id of its own for each end, while JSON has one id for all. The number of ends may be counted one too
    high (mrd_flow.ends), so a start that leads nowhere counts only if the event has no other start."""
    ends = collections.Counter(id for e in events for id, dir in flows(e) if dir == "end")
    found = collections.Counter()
    for event in events:
        args = {k: v for k, v in event.get("args", {}).items() if not k.startswith("meridian.")}
        keep = ("name", "timestamp", "duration", "category", "kind", "unfinished")
        starts = [ends[id] if fans else min(ends[id], 1) for id, dir in flows(event) if dir == "start"]
        arrows = sum(dir != "start" for _, dir in flows(event)) + (max(1, sum(starts)) if starts else 0)
        found[json.dumps([[event.get(k) for k in keep], arrows, args], sort_keys=True)] += 1
    return found


def union(spans):
    busy, end = 0, None
    for start, dur in sorted(spans):
        if end is None or start > end:
            busy, end = busy + dur, start + dur
        elif start + dur > end:
            busy, end = busy + start + dur - end, start + dur
    return busy


def check_summary(name, profile, summary):
    counts, totals, longest, nodes = collections.Counter(), collections.Counter(), {}, collections.defaultdict(list)
    for e in profile["trace_events"]:
        counts[e["name"]] += 1
        if e.get("kind") == "instant" or e.get("unfinished") or e.get("no_start"):
            continue
        totals[e["name"]] += e["duration"]
        longest[e["name"]] = max(longest.get(e["name"], 0), e["duration"])
        if e["timestamp"] != 0:
            nodes[e["instance_id"]].append((e["timestamp"], e["duration"]))
    block = next(v for k, v in summary.items() if k.startswith("s_"))
    equal(block["event_type_count"], dict(counts), f"{name}: event_type_count")
    equal(block["message_count"]["Trace_Events_Message_Count"], len(profile["trace_events"]), f"{name}: messages")
    spans = {t["name"]: t for t in summary["summary"]["event_types"] if "total_ns" in t}
    equal({n: t["total_ns"] for n, t in spans.items()}, dict(totals), f"{name}: total_ns")
    equal({n: t["max_ns"] for n, t in spans.items()}, longest, f"{name}: max_ns")
    for node in summary["summary"]["nodes"]:
        equal(node.get("busy_ns", 0), union(nodes[node["instance_id"]]), f"{name}: busy_ns of {node['instance_id']}")


def check_file(path, importer):
    name = os.path.basename(path)
    out, again, chrome = tmp(), tmp(), tmp()
    run("view", path, "-o", out, "--output-format", "json,chrome,summary-json")
    first = load(os.path.join(out, "system_profile.json"))
    run("view", os.path.join(out, "system_profile.json"), "-o", again, "--output-format", "json")
    second = load(os.path.join(again, "system_profile.json"))
    for section in ("mem_usage", "cpu_util", "counters", "losses", "system_profile_metadata"):
        equal(second[section] == first[section], True, f"{name}: {section} comes back")
    equal(list(map(without_flows, second["trace_events"])) == list(map(without_flows, first["trace_events"])), True,
          f"{name}: json comes back")
    check_summary(name, first, load(os.path.join(out, "summary.json")))
    trace = os.path.join(out, "system_profile.trace.json")
    run("view", trace, "-o", chrome, "--output-format", "json")
    third = load(os.path.join(chrome, "system_profile.json"))
    want, got = identity_free(first["trace_events"], True), identity_free(third["trace_events"], False)
    equal((list((want - got).items())[:3], list((got - want).items())[:3]), ([], []), f"{name}: chrome comes back")
    bad, slices = importer.query(trace, Importer.BAD, "select count(*) from slice")
    equal(bad, [], f"{name}: import errors of chrome")
    equal(int(slices[0][0]), len(first["trace_events"]), f"{name}: slices of chrome")


def main():
    importer = Importer()
    for pattern in FILES:
        paths = sorted(glob.glob(data(pattern)))
        check(paths, f"no traces like {pattern}")
        for path in paths:
            if sys.argv[1:] != ["small"] or os.path.getsize(path) < 10**6:
                check_file(path, importer)


main()
finish()
