-- How far each clock can be trusted (ns), and how many events have a time whose error is not known.
WITH seen AS (
  SELECT session_id, clock_id, COUNT(*) AS n, SUM(CASE WHEN bound_ns < 0 THEN 1 ELSE 0 END) AS unknown_n,
         MAX(bound_ns) AS worst_ns
  FROM events
  GROUP BY session_id, clock_id
)
SELECT c.session_id AS session_id, c.clock_id AS clock_id, c.name AS name, c.instance_id AS instance_id,
       c.quality AS quality, c.method AS method, c.bound_ns AS stated_ns, c.violations AS violations,
       COALESCE(s.n, 0) AS events_n, COALESCE(s.unknown_n, 0) AS unbounded_n, CASE WHEN COALESCE(s.n, 0) = 0 THEN -1 ELSE s.worst_ns END AS worst_event_ns
FROM clocks AS c
LEFT JOIN seen AS s ON s.session_id = c.session_id AND s.clock_id = c.clock_id
ORDER BY session_id, clock_id
