-- name: insert_event
INSERT INTO event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                   on_behalf, schema, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_execution
INSERT INTO execution (execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

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

-- name: select_execution
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at
FROM execution WHERE execution_id = ?;

-- name: select_executions
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at
FROM execution ORDER BY created_at DESC, execution_id LIMIT ?;

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
