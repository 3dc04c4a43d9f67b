-- name: insert_batch
INSERT INTO event_batch (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_execution
INSERT INTO execution (execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at,
                       parent_execution_id, wake_at, failed_iterations, iterations, summary, counted_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: move_open_execution
-- It leaves alone what only an end changes: naming a column rewrites its index, a page of every commit.
UPDATE execution SET status = ?, last_seq = ?, wake_at = ?, failed_iterations = ?, iterations = ?, summary = ?,
                     counted_seq = ?
WHERE execution_id = ? AND last_seq = ?;

-- name: move_execution
UPDATE execution SET status = ?, last_seq = ?, finished_at = ?, wake_at = ?, failed_iterations = ?, iterations = ?,
                     summary = ?, counted_seq = ?
WHERE execution_id = ? AND last_seq = ?;

-- name: insert_order
INSERT INTO orders (order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (order_id) DO NOTHING;

-- name: move_order
UPDATE orders SET state = ?, lease_owner = ?, lease_epoch = ?, lease_until = ?
WHERE order_id = ? AND lease_epoch = ?;

-- name: close_order
DELETE FROM orders WHERE order_id = ? AND lease_epoch = ?;

-- name: renew_lease
UPDATE orders SET lease_until = ?
WHERE order_id = ? AND lease_epoch = ? AND state = 'leased' AND (? IS NULL OR lease_owner = ?);

-- name: select_batches
SELECT b.first_seq, b.last_seq, b.event_ids, b.types, b.envelopes, b.payloads, b.checksum, x.trace_id
FROM event_batch AS b JOIN execution AS x USING (execution_id)
WHERE b.execution_id = ? AND b.last_seq > ?
ORDER BY b.last_seq;

-- name: select_newest_batches
SELECT b.first_seq, b.last_seq, b.event_ids, b.types, b.envelopes, b.payloads, b.checksum, x.trace_id
FROM event_batch AS b JOIN execution AS x USING (execution_id)
WHERE b.execution_id = ? AND b.last_seq > ?
ORDER BY b.last_seq DESC;

-- name: select_rows
-- Of an earlier program, before they are packed.
SELECT e.seq, e.event_id, e.event_type, e.ts, e.source, e.parent_id, e.step, e.step_run_id, e.task_run_id, e.on_behalf,
       e.schema, e.payload, e.checksum, x.trace_id
FROM unpacked_event AS e JOIN execution AS x USING (execution_id)
WHERE e.execution_id = ? AND e.seq > ?
ORDER BY e.seq;

-- name: select_unpacked
SELECT execution_id FROM unpacked_event WHERE execution_id > ? ORDER BY execution_id LIMIT 1;

-- name: select_rows_to_pack
SELECT seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema,
       CAST(payload AS BLOB), checksum
FROM unpacked_event WHERE execution_id = ? ORDER BY seq;

-- name: begin_packing
INSERT INTO packing (execution_id) VALUES (?);

-- name: end_packing
DELETE FROM packing WHERE execution_id = ?;

-- name: select_streams
SELECT execution_id FROM event_batch WHERE first_seq = 1 UNION SELECT execution_id FROM unpacked_event
ORDER BY execution_id;

-- name: select_stream
SELECT first_seq, last_seq, event_ids, types, envelopes, payloads, checksum, ''
FROM event_batch WHERE execution_id = ? ORDER BY last_seq;

-- name: select_stream_of_rows
SELECT seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, payload,
       checksum, ''
FROM unpacked_event WHERE execution_id = ? ORDER BY seq;

-- name: delete_orders
DELETE FROM orders;

-- name: delete_executions
DELETE FROM execution;

-- name: select_execution
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution WHERE execution_id = ?;

-- name: select_executions
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution
WHERE (:status IS NULL OR status = :status) AND (:path IS NULL OR path GLOB :path)
  AND (:beyond IS NULL OR (-created_at, execution_id)
       > (SELECT -last.created_at, last.execution_id FROM execution AS last WHERE last.execution_id = :beyond))
  AND (:since IS NULL OR created_at >= :since) AND (:until IS NULL OR created_at < :until)
  AND (:text IS NULL OR instr(lower(execution_id), :text) OR instr(lower(path), :text) OR instr(lower(name), :text))
  AND (:error IS NULL OR json_extract(summary, '$.error') = :error)
  AND (:step IS NULL OR json_extract(summary, '$.step') = :step)
  AND (:labels IS NULL OR net_hash IN (
      SELECT net_hash FROM net AS n
      WHERE NOT EXISTS (
          SELECT 1 FROM json_each(:labels) AS l
          WHERE NOT EXISTS (
              SELECT 1 FROM json_each(CAST(n.body AS TEXT), '$.metadata.labels') AS m
              WHERE m.key = l.key AND CASE WHEN m.type IN ('true', 'false') THEN m.type ELSE CAST(m.value AS TEXT) END
                                      = l.value))))
ORDER BY created_at DESC, execution_id LIMIT :limit;

-- name: select_moved
SELECT execution_id, last_seq FROM execution WHERE finished_at IS NULL
UNION ALL
SELECT execution_id, last_seq FROM execution WHERE finished_at > ?;

-- name: select_last_end
SELECT max(finished_at) FROM execution;

-- name: count_unclaimed
SELECT pool, count(*) FROM orders WHERE state = 'ready' OR (state = 'leased' AND lease_until < ?) GROUP BY pool;

-- name: select_timed
SELECT execution_id FROM timer WHERE wait_id = ? LIMIT 1;

-- name: select_ended_nets
SELECT DISTINCT net_hash FROM execution WHERE finished_at IS NOT NULL ORDER BY net_hash;

-- name: select_outlived
SELECT x.execution_id FROM execution AS x
WHERE x.finished_at < ? AND x.net_hash = ?
  AND NOT EXISTS (SELECT 1 FROM execution AS p WHERE p.execution_id = x.parent_execution_id AND p.finished_at IS NULL)
ORDER BY x.finished_at, x.execution_id LIMIT ?;

-- name: retire_execution
DELETE FROM execution WHERE execution_id = ? AND finished_at IS NOT NULL;

-- name: retire_rows
DELETE FROM unpacked_event WHERE execution_id = ?;

-- name: retire_batches
DELETE FROM event_batch WHERE execution_id = ?;

-- name: retire_keys
DELETE FROM event_key WHERE execution_id = ?;

-- name: retire_timers
DELETE FROM timer WHERE execution_id = ?;

-- name: retire_orders
DELETE FROM orders WHERE execution_id = ?;

-- name: retire_waits
DELETE FROM wait WHERE execution_id = ?;

-- name: retire_tasks
DELETE FROM task WHERE execution_id = ?;

-- name: retire_notices
DELETE FROM notice WHERE execution_id = ?;

-- name: retire_requests
DELETE FROM request WHERE execution_id = ?;

-- name: select_naming
SELECT payloads FROM event_batch WHERE payloads LIKE '%"checksum":"%'
UNION ALL
SELECT payload FROM unpacked_event WHERE payload LIKE '%"checksum":"%'
UNION ALL
SELECT payload FROM message WHERE payload LIKE '%"checksum":"%';

-- name: select_children
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution WHERE parent_execution_id = ? ORDER BY created_at, execution_id;

-- name: tally_executions
SELECT status, count(*) FROM execution GROUP BY status;

-- name: select_ids
SELECT execution_id FROM execution
WHERE execution_id >= ? AND substr(execution_id, 1, ?) = ? ORDER BY execution_id LIMIT ?;

-- name: select_orders
SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
FROM orders WHERE execution_id = ? ORDER BY rowid;

-- name: select_claimable
SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
FROM orders
WHERE (state = 'ready' OR (state = 'leased' AND lease_until < :now))
  AND (:pools IS NULL OR pool IN (SELECT value FROM json_each(:pools)))
ORDER BY priority DESC, rowid LIMIT :limit;

-- name: select_leased
SELECT pool, count(*) FROM orders
WHERE state = 'leased' AND lease_until >= :now
  AND (:pools IS NULL OR pool IN (SELECT value FROM json_each(:pools)))
GROUP BY pool;

-- name: select_lapsed
SELECT lease_owner, max(lease_until) FROM orders
WHERE state = 'leased' AND lease_until < :now AND lease_until > 0
GROUP BY lease_owner;

-- name: select_held_by
SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
FROM orders WHERE state = 'leased' AND lease_owner = ? ORDER BY rowid;

-- name: count_leased
SELECT count(*) FROM orders WHERE state = 'leased' AND pool = ? AND lease_until >= ?;

-- name: select_positions
SELECT execution_id, last_seq FROM execution WHERE execution_id IN (SELECT value FROM json_each(?));

-- name: select_open_among
SELECT execution_id FROM execution
WHERE execution_id IN (SELECT value FROM json_each(?)) AND finished_at IS NULL;

-- name: select_due
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution WHERE wake_at <= ? ORDER BY wake_at, execution_id LIMIT ?;

-- name: select_next_due
SELECT min(wake_at) FROM execution WHERE wake_at IS NOT NULL;

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

-- name: insert_wait
INSERT INTO wait (wait_id, execution_id, step_run_id, kind, name, correlation, opened_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (wait_id) DO UPDATE SET name = excluded.name, correlation = excluded.correlation;

-- name: delete_wait
DELETE FROM wait WHERE wait_id = ?;

-- name: delete_waits
DELETE FROM wait;

-- name: select_waiting
SELECT wait_id, execution_id, step_run_id, kind, name, correlation, opened_at
FROM wait
WHERE kind = :kind AND name = :name
  AND (:correlations IS NULL OR correlation IN (SELECT value FROM json_each(:correlations)))
ORDER BY opened_at, rowid;

-- name: select_waits_of
SELECT wait_id, execution_id, step_run_id, kind, name, correlation, opened_at
FROM wait WHERE execution_id = ? ORDER BY opened_at, rowid;

-- name: select_newest_waits
SELECT wait_id, execution_id, step_run_id, kind, name, correlation, opened_at
FROM wait ORDER BY opened_at DESC, rowid DESC LIMIT ?;

-- name: insert_message
INSERT INTO message (message_id, name, correlation, payload, sent_at, expires_at, taken_by)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message_id) DO NOTHING;

-- name: take_message
UPDATE message SET taken_by = ? WHERE message_id = ? AND taken_by IS NULL;

-- name: select_message
SELECT message_id, name, correlation, payload, sent_at, expires_at, taken_by FROM message WHERE message_id = ?;

-- name: select_kept
SELECT message_id, name, correlation, payload, sent_at, expires_at, taken_by
FROM message WHERE name = ? AND taken_by IS NULL AND expires_at > ? ORDER BY sent_at, rowid;

-- name: select_newest_kept
SELECT message_id, name, correlation, length(CAST(payload AS BLOB)), sent_at, expires_at FROM message
WHERE taken_by IS NULL AND expires_at > :now AND (:name IS NULL OR name = :name)
  AND (:sent_at IS NULL OR (sent_at, message_id) < (:sent_at, :message_id))
ORDER BY sent_at DESC, message_id DESC LIMIT :limit;

-- name: count_kept
SELECT count(*) FROM message WHERE name = ? AND taken_by IS NULL AND expires_at > ?;

-- name: select_names_kept
SELECT DISTINCT name FROM message WHERE taken_by IS NULL AND expires_at > ? ORDER BY name;

-- name: remove_message
DELETE FROM message WHERE message_id = ? AND taken_by IS NULL AND expires_at > ?;

-- name: remove_named_messages
DELETE FROM message WHERE name = ? AND taken_by IS NULL AND expires_at > ?;

-- name: discard_messages
DELETE FROM message WHERE expires_at <= ?;

-- name: put_task
INSERT INTO task (task_id, execution_id, state, role, user, claimed_by, created_at, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, role = excluded.role, user = excluded.user,
                                    claimed_by = excluded.claimed_by, body = excluded.body;

-- name: delete_tasks
DELETE FROM task;

-- name: select_task
SELECT body FROM task WHERE task_id = ?;

-- name: select_tasks
SELECT body FROM task
WHERE (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:role IS NULL OR role = :role)
  AND (:user IS NULL OR user = :user OR claimed_by = :user)
  AND (NOT :for_anybody OR (role IS NULL AND user IS NULL))
  AND (:execution_id IS NULL OR execution_id = :execution_id)
  AND (:beyond IS NULL OR (-created_at, task_id)
       > (SELECT -last.created_at, last.task_id FROM task AS last WHERE last.task_id = :beyond))
ORDER BY created_at DESC, task_id LIMIT :limit;

-- name: select_key_value
-- The table has an older name: a migration only adds, since servers of the version before go on meanwhile.
SELECT kind, name, version, body, updated_at FROM shelf WHERE kind = ? AND name = ?;

-- name: select_key_values
SELECT kind, name, version, body, updated_at FROM shelf
WHERE kind = :kind AND substr(name, 1, length(:prefix)) = :prefix AND (:beyond IS NULL OR name > :beyond)
ORDER BY name LIMIT :limit;

-- name: select_key_values_beginning
-- A range of the index for each prefix: the last character there is ends it.
SELECT DISTINCT k.kind, k.name, k.version, k.body, k.updated_at
FROM json_each(:prefixes) AS p CROSS JOIN shelf AS k
WHERE k.kind = :kind AND k.name >= p.value AND k.name < p.value || char(1114111) ORDER BY k.name;

-- name: insert_key_value
INSERT INTO shelf (kind, name, version, body, updated_at) VALUES (?, ?, 1, ?, ?) ON CONFLICT (kind, name) DO NOTHING;

-- name: replace_key_value
UPDATE shelf SET version = version + 1, body = ?, updated_at = ? WHERE kind = ? AND name = ? AND version = ?;

-- name: delete_key_value
DELETE FROM shelf WHERE kind = :kind AND name = :name AND (:version IS NULL OR version = :version);

-- name: sweep_key_values
DELETE FROM shelf WHERE kind = ? AND updated_at < ?;

-- name: select_last_audit
SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1;

-- name: insert_audit
INSERT INTO audit (seq, at, actor, action, object, address, outcome, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: select_newest_audit
SELECT seq, at, actor, action, object, address, outcome, prev_hash, hash FROM audit
WHERE :before IS NULL OR seq < :before ORDER BY seq DESC LIMIT :limit;

-- name: select_audit
SELECT seq, at, actor, action, object, address, outcome, prev_hash, hash FROM audit
WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: insert_notice
INSERT INTO notice (notice_id, execution_id, path, event, rule, state, created_at, due_at, attempts, fold_key, throttle_s,
                    folded, error, ended_at, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (notice_id) DO NOTHING;

-- name: select_notice
SELECT notice_id, execution_id, path, event, rule, state, created_at, due_at, attempts, fold_key, throttle_s, folded,
       error, ended_at, body
FROM notice WHERE notice_id = ?;

-- name: select_notices
SELECT notice_id, execution_id, path, event, rule, state, created_at, due_at, attempts, fold_key, throttle_s, folded,
       error, ended_at, body
FROM notice
WHERE (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:execution_id IS NULL OR execution_id = :execution_id)
  AND (:beyond IS NULL OR (-created_at, notice_id)
       > (SELECT -last.created_at, last.notice_id FROM notice AS last WHERE last.notice_id = :beyond))
ORDER BY created_at DESC, notice_id LIMIT :limit;

-- name: select_due_notice
SELECT 1 FROM notice WHERE state IN ('pending', 'sending') AND due_at <= ? LIMIT 1;

-- name: claim_notices
-- One that is throttled waits for an older one, for one that is being sent, and for the end of its time.
UPDATE notice SET state = 'sending', attempts = attempts + 1, due_at = :until
WHERE notice_id IN (
    SELECT n.notice_id FROM notice AS n
    WHERE n.state IN ('pending', 'sending') AND n.due_at <= :now
      AND NOT EXISTS (
          SELECT 1 FROM notice AS o
          WHERE o.fold_key = n.fold_key AND o.notice_id <> n.notice_id
            AND ((o.state = 'sending' AND o.due_at > :now)
                 OR (o.state = 'sent' AND o.ended_at > :now - n.throttle_s)
                 OR (o.state IN ('pending', 'sending') AND (o.created_at, o.notice_id) < (n.created_at, n.notice_id))))
    ORDER BY n.due_at, n.notice_id LIMIT :limit)
RETURNING notice_id;

-- name: count_folded
UPDATE notice SET folded = folded + (
    SELECT coalesce(sum(1 + o.folded), 0) FROM notice AS o
    WHERE o.fold_key = notice.fold_key AND o.notice_id <> notice.notice_id AND o.state IN ('pending', 'sending'))
WHERE notice_id = :leader AND fold_key IS NOT NULL;

-- name: fold_notices
UPDATE notice SET state = 'folded', ended_at = :now
WHERE fold_key = (SELECT l.fold_key FROM notice AS l WHERE l.notice_id = :leader)
  AND notice_id <> :leader AND state IN ('pending', 'sending');

-- name: settle_notice
UPDATE notice SET state = ?, due_at = ?, error = ?, ended_at = ?
WHERE notice_id = ? AND attempts = ? AND state = 'sending';

-- name: revive_notice
UPDATE notice SET state = 'pending', due_at = ?, attempts = 0, ended_at = NULL WHERE notice_id = ? AND state = 'dead';

-- name: count_notices
SELECT state, count(*) FROM notice GROUP BY state;

-- name: sweep_notices
DELETE FROM notice WHERE ended_at < ? AND state IN (SELECT value FROM json_each(?));
