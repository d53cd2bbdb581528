-- What the devices spent their time on, by name: in all, and by the worker that took longest against the median one (ns). An execution on two physical cores is one.
WITH total AS (
  SELECT session_id, worker, rank, name, COUNT(*) AS n, SUM(dur_ns) AS took_ns
  FROM events
  WHERE worker >= 0 AND source IN ('neuron_hw', 'framework') AND activity IN ('compute', 'collective', 'barrier', 'copy')
  GROUP BY session_id, worker, rank, name
), ordered AS (
  SELECT session_id, worker, rank, name, n, took_ns,
         ROW_NUMBER() OVER (PARTITION BY session_id, name ORDER BY took_ns, worker DESC) AS pos,
         COUNT(*) OVER (PARTITION BY session_id, name) AS workers_n,
         SUM(took_ns) OVER (PARTITION BY session_id, name) AS all_ns,
         SUM(n) OVER (PARTITION BY session_id, name) AS all_n
  FROM total
)
SELECT s.session_id AS session_id, s.name AS name, s.all_n AS spans, s.all_ns AS total_ns, s.workers_n AS workers,
       m.took_ns AS median_ns, s.took_ns AS slowest_ns, s.worker AS slowest_worker, s.rank AS slowest_rank
FROM ordered AS s
JOIN ordered AS m ON m.session_id = s.session_id AND m.name = s.name
WHERE s.pos = s.workers_n AND (2 * m.pos = m.workers_n OR 2 * m.pos = m.workers_n + 1)
ORDER BY total_ns DESC, session_id, name
