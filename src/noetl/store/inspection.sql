-- What no store should hold; the same words in every SQL. Each statement gives whose it is and what is wrong.

-- name: gaps
SELECT x.execution_id,
       'its row is at event ' || x.last_seq || ', its log has ' || count(e.seq) || ' up to ' || coalesce(max(e.seq), 0)
FROM execution AS x LEFT JOIN event AS e ON e.execution_id = x.execution_id
GROUP BY x.execution_id, x.last_seq
HAVING count(e.seq) <> x.last_seq OR coalesce(max(e.seq), 0) <> x.last_seq;

-- name: unlisted
SELECT DISTINCT e.execution_id, 'it has events and no row' FROM event AS e
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
