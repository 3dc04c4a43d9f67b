-- name: insert_event
INSERT INTO event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                   on_behalf, schema, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_execution
INSERT INTO execution (execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at,
                       parent_execution_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: move_execution
UPDATE execution SET status = ?, last_seq = ?, finished_at = ? WHERE execution_id = ? AND last_seq = ?;

-- name: insert_order
INSERT INTO orders (order_id, execution_id, step_run_id, state, lease_owner, lease_epoch, lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (order_id) DO NOTHING;

-- name: move_order
UPDATE orders SET state = ?, lease_owner = ?, lease_epoch = ?, lease_until = ?
WHERE order_id = ? AND lease_epoch = ? AND state <> 'closed';

-- name: renew_lease
UPDATE orders SET lease_until = ? WHERE order_id = ? AND lease_epoch = ? AND state = 'leased';

-- name: select_events
SELECT e.seq, e.event_id, e.event_type, e.ts, e.source, e.parent_id, e.step, e.step_run_id, e.task_run_id, e.on_behalf,
       e.schema, e.payload, x.trace_id
FROM event AS e JOIN execution AS x USING (execution_id)
WHERE e.execution_id = ? AND e.seq > ?
ORDER BY e.seq;

-- name: select_streams
SELECT DISTINCT execution_id FROM event ORDER BY execution_id;

-- name: select_stream
SELECT seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, payload, ''
FROM event WHERE execution_id = ? ORDER BY seq;

-- name: delete_orders
DELETE FROM orders;

-- name: delete_executions
DELETE FROM execution;

-- name: select_some_events
SELECT e.seq, e.event_id, e.event_type, e.ts, e.source, e.parent_id, e.step, e.step_run_id, e.task_run_id, e.on_behalf,
       e.schema, e.payload, x.trace_id
FROM event AS e JOIN execution AS x USING (execution_id)
WHERE e.execution_id = :execution_id AND e.seq > :after
  AND (:step IS NULL OR e.step = :step)
  AND (:types IS NULL OR EXISTS (SELECT 1 FROM json_each(:types) AS t WHERE e.event_type GLOB t.value))
ORDER BY e.seq LIMIT :limit;

-- name: select_newest_events
SELECT e.seq, e.event_id, e.event_type, e.ts, e.source, e.parent_id, e.step, e.step_run_id, e.task_run_id, e.on_behalf,
       e.schema, e.payload, x.trace_id
FROM event AS e JOIN execution AS x USING (execution_id)
WHERE e.execution_id = :execution_id AND e.seq > :after
  AND (:step IS NULL OR e.step = :step)
  AND (:types IS NULL OR EXISTS (SELECT 1 FROM json_each(:types) AS t WHERE e.event_type GLOB t.value))
ORDER BY e.seq DESC LIMIT :limit;

-- name: select_execution
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id
FROM execution WHERE execution_id = ?;

-- name: select_executions
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id
FROM execution
WHERE (:status IS NULL OR status = :status) AND (:path IS NULL OR path GLOB :path)
  AND (:beyond IS NULL OR (-created_at, execution_id)
       > (SELECT -last.created_at, last.execution_id FROM execution AS last WHERE last.execution_id = :beyond))
ORDER BY created_at DESC, execution_id LIMIT :limit;

-- name: select_children
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id
FROM execution WHERE parent_execution_id = ? ORDER BY created_at, execution_id;

-- name: select_ids
SELECT execution_id FROM execution
WHERE execution_id >= ? AND substr(execution_id, 1, ?) = ? ORDER BY execution_id LIMIT ?;

-- name: select_orders
SELECT order_id, execution_id, step_run_id, state, lease_owner, lease_epoch, lease_until
FROM orders WHERE execution_id = ? AND state <> 'closed' ORDER BY rowid;

-- name: select_claimable
SELECT order_id, execution_id, step_run_id, state, lease_owner, lease_epoch, lease_until
FROM orders WHERE state = 'ready' OR (state = 'leased' AND lease_until < ?)
ORDER BY rowid LIMIT ?;

-- name: insert_net
INSERT INTO net (net_hash, body) VALUES (?, ?) ON CONFLICT (net_hash) DO NOTHING;

-- name: select_net
SELECT body FROM net WHERE net_hash = ?;

-- name: select_credential
SELECT name, type, version, key_id, wrapped_key, sealed, fingerprint, created_at, updated_at
FROM credential WHERE name = ?;

-- name: select_credentials
SELECT name, type, version, key_id, wrapped_key, sealed, fingerprint, created_at, updated_at
FROM credential ORDER BY name;

-- name: insert_credential
INSERT INTO credential (name, type, version, key_id, wrapped_key, sealed, fingerprint, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO NOTHING;

-- name: replace_credential
UPDATE credential SET type = ?, version = ?, key_id = ?, wrapped_key = ?, sealed = ?, fingerprint = ?, created_at = ?,
                      updated_at = ?
WHERE name = ? AND version = ? AND key_id = ?;

-- name: delete_credential
DELETE FROM credential WHERE name = ?;

-- name: insert_catalog
INSERT INTO catalog (path, version, net_hash, label, source, origin, registered_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: move_catalog_origin
UPDATE catalog SET origin = ? WHERE path = ? AND version = ?;

-- name: select_newest_version
SELECT path, version, net_hash, label, source, origin, registered_at
FROM catalog WHERE path = ? ORDER BY version DESC LIMIT 1;

-- name: select_versions
SELECT path, version, net_hash, label, source, origin, registered_at
FROM catalog WHERE path = ? ORDER BY version DESC;

-- name: select_catalog
SELECT path, version, net_hash, label, source, origin, registered_at
FROM catalog AS c WHERE version = (SELECT max(version) FROM catalog AS d WHERE d.path = c.path)
ORDER BY path LIMIT ?;

-- name: select_origin
SELECT origin FROM catalog WHERE net_hash = ? AND origin IS NOT NULL ORDER BY registered_at DESC LIMIT 1;

-- name: insert_request
INSERT INTO request (execution_id, action, reason, requested_at) VALUES (?, ?, ?, ?);

-- name: select_pending_requests
SELECT request_id, execution_id, action, reason, requested_at, answer, answered_at
FROM request WHERE answer IS NULL ORDER BY request_id;

-- name: select_request
SELECT request_id, execution_id, action, reason, requested_at, answer, answered_at
FROM request WHERE request_id = ?;

-- name: answer_request
UPDATE request SET answer = ?, answered_at = ? WHERE request_id = ? AND answer IS NULL;
