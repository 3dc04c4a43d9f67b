-- What no store should hold; the same words in every SQL. Each statement gives whose it is and what is wrong.

-- name: gaps
SELECT s.execution_id,
       'its row is at event ' || s.last_seq || ', its log has ' || s.number || ' up to ' || coalesce(s.newest, 0)
FROM (SELECT x.execution_id, x.last_seq, coalesce(b.number, 0) + coalesce(u.number, 0) AS number,
             coalesce(b.newest, u.newest) AS newest
      FROM execution AS x
      LEFT JOIN (SELECT execution_id, sum(last_seq - first_seq + 1) AS number, max(last_seq) AS newest
                 FROM event_batch GROUP BY execution_id) AS b ON b.execution_id = x.execution_id
      LEFT JOIN (SELECT execution_id, count(*) AS number, max(seq) AS newest
                 FROM unpacked_event GROUP BY execution_id) AS u ON u.execution_id = x.execution_id) AS s
WHERE s.number <> s.last_seq OR coalesce(s.newest, 0) <> s.last_seq;

-- name: unlisted
SELECT DISTINCT e.execution_id, 'it has events and no row'
FROM (SELECT execution_id FROM event_batch UNION SELECT execution_id FROM unpacked_event) AS e
WHERE NOT EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id = e.execution_id);

-- name: without_net
SELECT x.execution_id, 'its net ' || x.net_hash || ' is not there' FROM execution AS x
WHERE NOT EXISTS (SELECT 1 FROM net AS n WHERE n.net_hash = x.net_hash);

-- name: orphan_waits
SELECT w.execution_id, 'wait ' || w.wait_id || ' is open, and its execution is over' FROM wait AS w
WHERE NOT EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id = w.execution_id AND x.finished_at IS NULL);

-- name: orphan_orders
SELECT o.execution_id, 'order ' || o.order_id || ' is open, and its execution is over' FROM orders AS o
WHERE NOT EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id = o.execution_id AND x.finished_at IS NULL);

-- name: orphan_tasks
SELECT t.execution_id, 'task ' || t.task_id || ' is open, and its execution is over' FROM task AS t
WHERE t.state IN ('open', 'claimed')
  AND NOT EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id = t.execution_id AND x.finished_at IS NULL);
