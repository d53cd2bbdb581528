-- Where each worker's time went (ns): parts add up to its window, from its first to its last device span.
-- exposed: a collective runs and nothing else; both: it runs while the device computes; waiting: in a barrier.
-- The parts were counted when the profile was written, so that the query does not read the events.
SELECT session_id, worker, rank, compute_ns, both_ns, exposed_ns, copy_ns, waiting_ns, host_ns, idle_ns, not_recorded_ns
FROM verdicts
WHERE last_ns > first_ns
ORDER BY session_id, worker
