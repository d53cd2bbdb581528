-- Computes what sql/exposed_communication.sql reads from the verdicts, from the events and losses themselves.
WITH running AS (
  SELECT session_id, worker, ts_ns AS from_ns, ts_ns + dur_ns AS to_ns, activity AS what
  FROM events
  WHERE worker >= 0 AND dur_ns >= 0 AND activity <> ''
  UNION ALL
  SELECT w.session_id AS session_id, w.worker AS worker, l.ts_ns AS from_ns, l.ts_ns + l.dur_ns AS to_ns, 'lost' AS what
  FROM losses AS l
  JOIN workers AS w ON w.session_id = l.session_id AND w.process_key = l.process_key
  WHERE (l.lost > 0 OR l.cause = 'paused') AND l.dur_ns > 0 AND (l.lnc_idx = -1 OR l.lnc_idx = w.lnc_idx)
    AND l.cause NOT IN ('ring-full', 'ring-record-too-big', 'ring-other')
  UNION ALL
  SELECT w.session_id AS session_id, w.worker AS worker, l.ts_ns AS from_ns, l.ts_ns + l.dur_ns AS to_ns, 'lost' AS what
  FROM losses AS l
  JOIN processes AS p ON p.session_id = l.session_id AND p.process_key = l.process_key
  JOIN workers AS w ON w.session_id = l.session_id AND w.instance_id = l.instance_id
  WHERE p.is_node = 1 AND w.process_key <> l.process_key AND (l.lost > 0 OR l.cause = 'paused') AND l.dur_ns > 0
    AND l.cause NOT IN ('ring-full', 'ring-record-too-big', 'ring-other')
), edge AS (
  SELECT session_id, worker, from_ns AS at_ns, what, 1 AS change FROM running
  UNION ALL
  SELECT session_id, worker, to_ns AS at_ns, what, -1 AS change FROM running
), sweep AS (
  SELECT session_id, worker, at_ns,
         COALESCE(LEAD(at_ns) OVER (PARTITION BY session_id, worker ORDER BY at_ns), at_ns) AS next_ns,
         SUM(CASE WHEN what = 'barrier' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS barriers,
         SUM(CASE WHEN what = 'compute' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS computes,
         SUM(CASE WHEN what = 'collective' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS collecting,
         SUM(CASE WHEN what = 'lost' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS gaps,
         SUM(CASE WHEN what = 'copy' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS copies,
         SUM(CASE WHEN what = 'host' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS hosts
  FROM edge
), slice AS (
  SELECT s.session_id AS session_id, s.worker AS worker, w.rank AS rank,
         CASE WHEN s.barriers > 0 THEN 'waiting'
              WHEN s.computes > 0 AND s.collecting > 0 THEN 'both'
              WHEN s.computes > 0 THEN 'compute'
              WHEN s.gaps > 0 THEN 'lost'
              WHEN s.collecting > 0 THEN 'exposed'
              WHEN s.copies > 0 THEN 'copy'
              WHEN s.hosts > 0 THEN 'host'
              ELSE 'idle' END AS part,
         CASE WHEN s.next_ns > w.last_ns THEN w.last_ns ELSE s.next_ns END
         - CASE WHEN s.at_ns < w.first_ns THEN w.first_ns ELSE s.at_ns END AS len_ns
  FROM sweep AS s
  JOIN workers AS w ON w.session_id = s.session_id AND w.worker = s.worker
  WHERE s.next_ns > w.first_ns AND s.at_ns < w.last_ns AND s.next_ns > s.at_ns
)
SELECT session_id, worker, rank,
       SUM(CASE WHEN part = 'compute' THEN len_ns ELSE 0 END) AS compute_ns,
       SUM(CASE WHEN part = 'both' THEN len_ns ELSE 0 END) AS both_ns,
       SUM(CASE WHEN part = 'exposed' THEN len_ns ELSE 0 END) AS exposed_ns,
       SUM(CASE WHEN part = 'copy' THEN len_ns ELSE 0 END) AS copy_ns,
       SUM(CASE WHEN part = 'waiting' THEN len_ns ELSE 0 END) AS waiting_ns,
       SUM(CASE WHEN part = 'host' THEN len_ns ELSE 0 END) AS host_ns,
       SUM(CASE WHEN part = 'idle' THEN len_ns ELSE 0 END) AS idle_ns,
       SUM(CASE WHEN part = 'lost' THEN len_ns ELSE 0 END) AS not_recorded_ns
FROM slice
GROUP BY session_id, worker, rank
ORDER BY session_id, worker
