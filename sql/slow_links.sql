-- Groups whose collectives take longer than those of other groups with the same operation, size and number of parts.
-- A collective's time is that of its fastest part, which did not wait for others; times are medians in ns.
WITH one AS (
  SELECT session_id, collective_id, group_id, name, size, parts, MIN(end_ns - ts_ns) AS took_ns,
         MIN(rank) AS least_rank, MAX(rank) AS most_rank, COUNT(DISTINCT node) AS nodes_n
  FROM collectives
  GROUP BY session_id, collective_id, group_id, name, size, parts
), ordered AS (
  SELECT session_id, group_id, name, size, parts, took_ns, least_rank, most_rank, nodes_n,
         ROW_NUMBER() OVER (PARTITION BY session_id, group_id, name, size, parts ORDER BY took_ns, collective_id) AS pos,
         COUNT(*) OVER (PARTITION BY session_id, group_id, name, size, parts) AS n
  FROM one
), middle AS (
  SELECT session_id, group_id, name, size, parts, n, took_ns, least_rank, most_rank, nodes_n
  FROM ordered
  WHERE 2 * pos = n OR 2 * pos = n + 1
), best AS (
  SELECT session_id, name, size, parts, MIN(took_ns) AS best_ns, COUNT(*) AS groups_n
  FROM middle
  GROUP BY session_id, name, size, parts
)
SELECT m.session_id AS session_id, m.name AS name, m.size AS size, m.group_id AS group_id, m.parts AS parts,
       m.least_rank AS first_rank, m.most_rank AS last_rank, m.nodes_n AS nodes, m.n AS collectives_n,
       m.took_ns AS median_ns, b.best_ns AS best_group_ns, m.took_ns - b.best_ns AS slower_ns
FROM middle AS m
JOIN best AS b ON b.session_id = m.session_id AND b.name = m.name AND b.size = m.size AND b.parts = m.parts
WHERE b.groups_n > 1
ORDER BY slower_ns DESC, session_id, name, size, group_id
