-- What is not in the profile, by cause: read this before anything else.
WITH lossy AS (
  SELECT session_id, instance_id, process_id, rank, cause, COUNT(*) AS n, SUM(lost) AS lost_n,
         MIN(ts_ns) AS first_ns, MAX(ts_ns + dur_ns) AS last_ns
  FROM losses
  GROUP BY session_id, instance_id, process_id, rank, cause
)
SELECT session_id, instance_id, process_id, rank, cause, n AS gaps, lost_n AS lost_events, first_ns, last_ns
FROM lossy
UNION ALL
SELECT session_id, path AS instance_id, -1 AS process_id, -1 AS rank,
       CASE WHEN error = '' THEN state ELSE error END AS cause,
       1 AS gaps, lost + dropped AS lost_events, 0 AS first_ns, 0 AS last_ns
FROM inputs
WHERE lost + dropped > 0 OR state <> 'ok'
ORDER BY session_id, lost_events DESC, instance_id, process_id, cause
