-- Where each worker's time went in each step (ns): parts add up to the step.
-- Steps are those that the process names itself ("step 12", "ProfilerStep#12"), without those that begin inside another one
-- that counts; the parts are those of exposed_communication. A worker of whose device nothing was recorded has none.
WITH numbered AS (
  SELECT session_id, process_key, ts_ns, dur_ns, name, step,
         ROW_NUMBER() OVER (PARTITION BY session_id, process_key ORDER BY ts_ns) - 0 AS step_no
  FROM steps
  WHERE counts = 1
), step_of AS (
  SELECT n.session_id AS session_id, w.worker AS worker, w.rank AS rank, n.step_no AS step_no, n.step AS step,
         n.name AS name, n.ts_ns AS from_ns, n.ts_ns + n.dur_ns AS to_ns
  FROM numbered AS n
  JOIN workers AS w ON w.session_id = n.session_id AND w.process_key = n.process_key
  WHERE w.first_ns <> 0 OR w.last_ns <> 0
), stepping AS (
  SELECT session_id, worker, MIN(from_ns) AS begin_ns, MAX(to_ns) AS end_ns
  FROM step_of
  GROUP BY session_id, worker
), running AS (
  SELECT e.session_id AS session_id, e.worker AS worker, e.ts_ns AS from_ns, e.ts_ns + e.dur_ns AS to_ns, e.activity AS what, 0 AS step_no
  FROM events AS e
  JOIN stepping AS t ON t.session_id = e.session_id AND t.worker = e.worker AND e.ts_ns < t.end_ns AND e.ts_ns + e.dur_ns > t.begin_ns
  WHERE e.dur_ns > 0 AND e.activity <> ''
  UNION ALL
  SELECT w.session_id AS session_id, w.worker AS worker, l.ts_ns AS from_ns, l.ts_ns + l.dur_ns AS to_ns, 'lost' AS what, 0 AS step_no
  FROM losses AS l
  JOIN workers AS w ON w.session_id = l.session_id AND w.process_key = l.process_key
  WHERE (l.lost > 0 OR l.cause = 'paused') AND l.dur_ns > 0 AND (l.lnc_idx = -1 OR l.lnc_idx = w.lnc_idx)
    AND l.cause NOT IN ('ring-full', 'ring-record-too-big', 'ring-other')
  UNION ALL
  SELECT w.session_id AS session_id, w.worker AS worker, l.ts_ns AS from_ns, l.ts_ns + l.dur_ns AS to_ns, 'lost' AS what, 0 AS step_no
  FROM losses AS l
  JOIN processes AS p ON p.session_id = l.session_id AND p.process_key = l.process_key
  JOIN workers AS w ON w.session_id = l.session_id AND w.instance_id = l.instance_id
  WHERE p.is_node = 1 AND w.process_key <> l.process_key AND (l.lost > 0 OR l.cause = 'paused') AND l.dur_ns > 0
    AND l.cause NOT IN ('ring-full', 'ring-record-too-big', 'ring-other')
  UNION ALL
  SELECT session_id, worker, from_ns, to_ns, 'step' AS what, step_no
  FROM step_of
), edge AS (
  SELECT session_id, worker, from_ns AS at_ns, what, 1 AS change, step_no FROM running
  UNION ALL
  SELECT session_id, worker, to_ns AS at_ns, what, -1 AS change, -step_no AS step_no FROM running
), sweep AS (
  SELECT session_id, worker, at_ns,
         COALESCE(LEAD(at_ns) OVER (PARTITION BY session_id, worker ORDER BY at_ns), at_ns) AS next_ns,
         SUM(step_no) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS inside_no,
         SUM(CASE WHEN what = 'step' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS inside,
         SUM(CASE WHEN what = 'barrier' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS barriers,
         SUM(CASE WHEN what = 'compute' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS computes,
         SUM(CASE WHEN what = 'collective' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS collecting,
         SUM(CASE WHEN what = 'lost' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS gaps,
         SUM(CASE WHEN what = 'copy' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS copies,
         SUM(CASE WHEN what = 'host' THEN change ELSE 0 END) OVER (PARTITION BY session_id, worker ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS hosts
  FROM edge
), slice AS (
  SELECT session_id, worker, inside_no, next_ns - at_ns AS len_ns,
         CASE WHEN barriers > 0 THEN 'waiting'
              WHEN computes > 0 AND collecting > 0 THEN 'both'
              WHEN computes > 0 THEN 'compute'
              WHEN gaps > 0 THEN 'lost'
              WHEN collecting > 0 THEN 'exposed'
              WHEN copies > 0 THEN 'copy'
              WHEN hosts > 0 THEN 'host'
              ELSE 'idle' END AS part
  FROM sweep
  WHERE inside = 1 AND next_ns > at_ns
)
SELECT p.session_id AS session_id, p.worker AS worker, s.rank AS rank, s.step AS step, s.name AS name,
       MIN(s.from_ns) AS begin_ns, MIN(s.to_ns - s.from_ns) AS length_ns,
       SUM(CASE WHEN p.part = 'compute' THEN p.len_ns ELSE 0 END) AS compute_ns,
       SUM(CASE WHEN p.part = 'both' THEN p.len_ns ELSE 0 END) AS both_ns,
       SUM(CASE WHEN p.part = 'exposed' THEN p.len_ns ELSE 0 END) AS exposed_ns,
       SUM(CASE WHEN p.part = 'copy' THEN p.len_ns ELSE 0 END) AS copy_ns,
       SUM(CASE WHEN p.part = 'waiting' THEN p.len_ns ELSE 0 END) AS waiting_ns,
       SUM(CASE WHEN p.part = 'host' THEN p.len_ns ELSE 0 END) AS host_ns,
       SUM(CASE WHEN p.part = 'idle' THEN p.len_ns ELSE 0 END) AS idle_ns,
       SUM(CASE WHEN p.part = 'lost' THEN p.len_ns ELSE 0 END) AS not_recorded_ns
FROM slice AS p
JOIN step_of AS s ON s.session_id = p.session_id AND s.worker = p.worker AND s.step_no = p.inside_no
GROUP BY p.session_id, p.worker, p.inside_no, s.rank, s.step, s.name
ORDER BY session_id, worker, begin_ns
