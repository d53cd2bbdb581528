-- Who came last to collectives, how often the clocks prove it, and how long others waited for it (ns).
-- Proven: it began after every other part by more than the sum of all errors. These are 100 ns of timer noise, mapping_ns of both
-- parts and, between nodes, bound_ns of both. If mapping_ns is -1, bound_ns includes it, and counts once, also within a node.
-- Nothing is proven by a suspect clock, or if a part of the group or, in a group of unknown size, a rank of the job is missing.
-- Nobody came last, and nobody caused the waiting, where the last two began within these 100 ns.
WITH last_part AS (
  SELECT c.session_id AS session_id, c.collective_id AS collective_id, c.worker AS worker, c.ts_ns AS ts_ns,
         c.bound_ns AS bound_ns, c.mapping_ns AS mapping_ns, c.suspect AS suspect, c.node AS node,
         g.contradicted AS contradicted,
         CASE WHEN g.members <> 0 AND g.takers <> g.members THEN 0
              WHEN c.parts < g.takers THEN 0 ELSE 1 END AS whole
  FROM collectives AS c
  JOIN collective_groups AS g ON g.session_id = c.session_id AND g.group_id = c.group_id
  WHERE c.pos = c.parts - 1
), last_one AS (
  SELECT l.session_id AS session_id, l.collective_id AS collective_id, l.worker AS worker, l.whole AS whole,
         SUM(l.ts_ns - o.ts_ns) AS waited_ns,
         MIN(l.ts_ns - o.ts_ns) AS ahead_ns,
         MIN(CASE WHEN (l.node <> o.node OR l.mapping_ns < 0) AND l.bound_ns < 0 THEN -1
                  WHEN (l.node <> o.node OR o.mapping_ns < 0) AND o.bound_ns < 0 THEN -1
                  WHEN l.node = o.node THEN l.ts_ns - o.ts_ns - 100
                       - CASE WHEN l.mapping_ns < 0 THEN l.bound_ns ELSE l.mapping_ns END
                       - CASE WHEN o.mapping_ns < 0 THEN o.bound_ns ELSE o.mapping_ns END
                  WHEN l.suspect + o.suspect + l.contradicted > 0 THEN -1
                  ELSE l.ts_ns - o.ts_ns - 100
                       - l.bound_ns - CASE WHEN l.mapping_ns < 0 THEN 0 ELSE l.mapping_ns END
                       - o.bound_ns - CASE WHEN o.mapping_ns < 0 THEN 0 ELSE o.mapping_ns END END) AS margin_ns
  FROM last_part AS l
  JOIN collectives AS o ON o.session_id = l.session_id AND o.collective_id = l.collective_id
  WHERE o.pos < o.parts - 1
  GROUP BY l.session_id, l.collective_id, l.worker, l.whole
), late AS (
  SELECT session_id, worker, COUNT(*) AS n,
         SUM(CASE WHEN margin_ns > 0 AND whole = 1 THEN 1 ELSE 0 END) AS proven,
         SUM(ahead_ns) AS alone, SUM(waited_ns) AS caused,
         SUM(CASE WHEN margin_ns > 0 AND whole = 1 THEN waited_ns ELSE 0 END) AS caused_proven
  FROM last_one
  WHERE ahead_ns > 100
  GROUP BY session_id, worker
), took AS (
  SELECT session_id, worker, rank, COUNT(*) AS n
  FROM collectives
  GROUP BY session_id, worker, rank
)
SELECT t.session_id AS session_id, t.worker AS worker, t.rank AS rank, t.n AS took_part,
       COALESCE(l.n, 0) AS last_n, COALESCE(l.proven, 0) AS proven_n,
       COALESCE(l.alone, 0) AS alone_ns, COALESCE(l.caused, 0) AS caused_ns,
       COALESCE(l.caused_proven, 0) AS proven_ns
FROM took AS t
LEFT JOIN late AS l ON l.session_id = t.session_id AND l.worker = t.worker
ORDER BY session_id, worker
