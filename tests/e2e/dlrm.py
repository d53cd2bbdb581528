"""Four ranks of one job, with a file each, must become one profile with four processes in the order
of ranks and no arrows between them."""
import glob
import os

from lib import SOURCE, Importer, check, data, equal, finish, load_json, run, tmp

files = sorted(glob.glob(data("param-dlrm-8rank-r0-3", "*.json.gz")))
equal(len(files), 4, "ranks in the data")
importer = Importer()
out = tmp()
run("view", *reversed(files), "-o", out, "--output-format", "perfetto,json,chrome")  # any order of arguments
trace = os.path.join(out, "system_profile.pftrace")
per_rank = []
for path in files:
    doc = load_json(path)
    spans = [e for e in doc["traceEvents"] if e["ph"] in "Xi"]
    per_rank.append((doc["distributedInfo"]["rank"], len(spans)))
bad, total, crossing, tracks, counts = importer.query(
    trace, Importer.BAD, "select count(*) from slice", "select count(*) from flow", "select id, name, parent_id from track order by id",
    "select track_id, count(*) from slice group by 1")
equal(bad, [], "import errors")
equal(int(total[0][0]), sum(n for _, n in per_rank), "slices of all ranks")
# Climb from each track with slices to the group below the root: one group per rank, with that rank's slices.
names = {t: n for t, n, _ in tracks}
parents = {t: p for t, _, p in tracks}
groups = {}
for track, count in counts:
    while parents[track] is not None and parents[parents[track]] is not None:
        track = parents[track]
    groups[names[track]] = groups.get(names[track], 0) + int(count)
ranks = [r for r, _ in per_rank]
for rank, n in per_rank:
    mine = [c for name, c in groups.items() if f"(rank {rank})" in name]
    equal(mine, [n], f"slices of rank {rank} in {sorted(groups)}")
# The order a person sees in the Perfetto UI.
order = importer.query(trace, "include perfetto module viz.summary.track_event; select name from _track_event_tracks_ordered_groups "
                       "where name like '%rank%' and parent_id is not null order by order_id")[0]
equal([i for (name,) in order for i in ranks if f"(rank {i})" in name], sorted(ranks), f"order of ranks in {order}")
# Arrows never join two ranks: count per file alone adds up to the count of the merged profile.
alone = 0
for path in files:
    one = tmp()
    run("view", path, "-o", one, "--output-format", "perfetto")
    alone += int(importer.query(os.path.join(one, "system_profile.pftrace"), "select count(*) from flow")[0][0][0])
check(alone > 0, "arrows exist")
equal(int(crossing[0][0]), alone, "arrows of the merged profile against the sum of single ranks")
# The same again gives the same bytes.
again = tmp()
run("view", *reversed(files), "-o", again, "--output-format", "perfetto,json,chrome")
for name in sorted(os.listdir(out)):
    with open(os.path.join(out, name), "rb") as a, open(os.path.join(again, name), "rb") as b:
        check(a.read() == b.read(), f"{name}: two runs give equal bytes")
finish()
