-- name: commit
-- One statement is one transaction and one round trip. The row of an execution is its lock: the first writer makes
-- others wait, and these then find another `last_seq` than they decided on, so they update nothing and are
-- refused below. A refusal rolls back everything else.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::summed_execution_row[])
), moved AS (
    UPDATE execution AS x SET status = g.status, last_seq = g.last_seq, finished_at = g.finished_at, wake_at = g.wake_at,
                              failed_iterations = g.failed_iterations, iterations = g.iterations,
                              summary = g.summary, counted_seq = g.last_seq
    FROM given AS g
    WHERE x.execution_id = g.execution_id AND x.last_seq = g.after AND g.after > 0
    RETURNING x.execution_id
), begun AS (
    INSERT INTO execution (execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at,
                           parent_execution_id, wake_at, failed_iterations, iterations, summary, counted_seq)
    SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at,
           parent_execution_id, wake_at, failed_iterations, iterations, summary, last_seq
    FROM given WHERE after = 0
), stored AS (
    INSERT INTO history (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
    SELECT * FROM unnest($2::event_batch_row[])
), given_order AS MATERIALIZED (
    SELECT * FROM unnest($3::order_row[]) WITH ORDINALITY
        AS g (order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until, place)
), made_order AS (
    INSERT INTO orders AS o (order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch,
                             lease_until)
    SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
    FROM given_order WHERE state <> 'closed' AND lease_epoch <= 1 ORDER BY place
    ON CONFLICT (execution_id, order_id) DO UPDATE
    SET state = excluded.state, lease_owner = excluded.lease_owner, lease_epoch = excluded.lease_epoch,
        lease_until = excluded.lease_until
    WHERE o.lease_epoch = excluded.lease_epoch - (excluded.state = 'leased')::integer
    RETURNING o.order_id
), moved_order AS (
    UPDATE orders AS o SET state = g.state, lease_owner = g.lease_owner, lease_epoch = g.lease_epoch,
                           lease_until = g.lease_until
    FROM given_order AS g
    WHERE o.execution_id = g.execution_id AND o.order_id = g.order_id
      AND g.state <> 'closed' AND g.lease_epoch > 1
      AND o.lease_epoch = g.lease_epoch - (g.state = 'leased')::integer
    RETURNING o.order_id
), closed_order AS (
    DELETE FROM orders AS o USING given_order AS g
    WHERE o.execution_id = g.execution_id AND o.order_id = g.order_id
      AND g.state = 'closed' AND o.lease_epoch = g.lease_epoch
    RETURNING o.order_id
), told AS (
    INSERT INTO moves (xid, execution_ids)
    SELECT pg_current_xact_id()::text::bigint, array_agg(execution_id) FROM given HAVING count(*) > 0
), kept AS (
    INSERT INTO net (net_hash, body) SELECT * FROM unnest($4::text[], $5::bytea[]) ON CONFLICT (net_hash) DO NOTHING
)
SELECT conflict('execution ' || execution_id || ' has moved past event ' || after)
FROM given WHERE after > 0 AND execution_id NOT IN (SELECT execution_id FROM moved)
UNION ALL
SELECT conflict('order ' || order_id || ' is held under another epoch')
FROM given_order
WHERE order_id NOT IN (SELECT order_id FROM made_order UNION ALL SELECT order_id FROM moved_order
                       UNION ALL SELECT order_id FROM closed_order);

-- name: insert_net
INSERT INTO net (net_hash, body) VALUES ($1, $2) ON CONFLICT (net_hash) DO NOTHING;

-- name: put_waits
INSERT INTO wait (wait_id, execution_id, step_run_id, kind, name, correlation, opened_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[])
ON CONFLICT (execution_id, wait_id) DO UPDATE SET name = excluded.name, correlation = excluded.correlation;

-- name: delete_waits
DELETE FROM wait AS w USING unnest($1::text[], $2::text[]) AS g (execution_id, wait_id)
WHERE w.execution_id = g.execution_id AND w.wait_id = g.wait_id;

-- name: take_messages
UPDATE message AS m SET taken_by = g.taken_by FROM unnest($1::text[], $2::text[]) AS g (message_id, taken_by)
WHERE m.message_id = g.message_id AND m.taken_by IS NULL
RETURNING m.message_id;

-- name: put_tasks
INSERT INTO task (task_id, execution_id, state, role, assignee, claimed_by, created_at, body)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[], $8::text[])
ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, role = excluded.role, assignee = excluded.assignee,
                                    claimed_by = excluded.claimed_by, body = excluded.body;

-- name: renew_lease
UPDATE orders SET lease_until = $1
WHERE order_id = $2 AND lease_epoch = $3 AND state = 'leased' AND ($4::text IS NULL OR lease_owner = $4);

-- name: select_batches
-- From the one that holds the event past $2.
SELECT b.first_seq, b.last_seq, b.event_ids, b.types, b.envelopes, b.payloads, b.checksum, x.trace_id
FROM batch AS b JOIN execution AS x USING (execution_id)
WHERE b.execution_id = $1 AND b.last_seq > $2
  AND b.first_seq >= coalesce((SELECT max(a.first_seq) FROM batch AS a
                               WHERE a.execution_id = $1 AND a.first_seq <= $2 + 1), 1)
ORDER BY b.first_seq LIMIT $3;

-- name: select_newest_batches
-- Those before the one that begins at $3.
SELECT b.first_seq, b.last_seq, b.event_ids, b.types, b.envelopes, b.payloads, b.checksum, x.trace_id
FROM batch AS b JOIN execution AS x USING (execution_id)
WHERE b.execution_id = $1 AND b.last_seq > $2 AND ($3::bigint IS NULL OR b.first_seq < $3)
ORDER BY b.first_seq DESC LIMIT $4;

-- name: select_rows
-- Of an earlier program, before they are packed.
SELECT e.seq, e.event_id, e.event_type, e.ts, e.source, e.parent_id, e.step, e.step_run_id, e.task_run_id, e.on_behalf,
       e.schema, e.payload, e.checksum, x.trace_id
FROM unpacked_event AS e JOIN execution AS x USING (execution_id)
WHERE e.execution_id = $1 AND e.seq > $2
ORDER BY e.seq;

-- name: lock_packing
SELECT pg_advisory_xact_lock(hashtext('noetl packing'), hashtext(current_schema()));

-- name: select_unpacked
SELECT execution_id FROM unpacked_event WHERE execution_id > $1 ORDER BY execution_id LIMIT 1;

-- name: lock_execution
-- Whoever commits waits here before it adds events, and finds batches where there were rows.
SELECT 1 FROM execution WHERE execution_id = $1 FOR UPDATE;

-- name: select_rows_to_pack
SELECT seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, payload,
       checksum
FROM unpacked_event WHERE execution_id = $1 ORDER BY seq;

-- name: begin_packing
INSERT INTO packing (execution_id) VALUES ($1);

-- name: delete_rows_to_pack
DELETE FROM unpacked_event WHERE execution_id = $1;

-- name: insert_batches
INSERT INTO history (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
SELECT * FROM unnest($1::event_batch_row[]);

-- name: end_packing
DELETE FROM packing WHERE execution_id = $1;

-- name: select_streams
SELECT execution_id FROM batch WHERE first_seq = 1 UNION SELECT execution_id FROM unpacked_event
ORDER BY execution_id;

-- name: select_stream
SELECT first_seq, last_seq, event_ids, types, envelopes, payloads, checksum, ''
FROM batch WHERE execution_id = $1 ORDER BY first_seq;

-- name: select_stream_of_rows
SELECT seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema, payload,
       checksum, ''
FROM unpacked_event WHERE execution_id = $1 ORDER BY seq;

-- name: select_batch
SELECT execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum
FROM batch WHERE execution_id = $1 AND first_seq = $2;

-- name: take_time
SET LOCAL idle_in_transaction_session_timeout = 0;

-- name: lock_rows
LOCK TABLE execution, orders, wait, task IN EXCLUSIVE MODE;

-- name: delete_rows
WITH o AS (DELETE FROM orders), w AS (DELETE FROM wait), t AS (DELETE FROM task) DELETE FROM execution;

-- name: unsafe
SELECT name FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name;

-- name: select_execution
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution WHERE execution_id = $1;

-- name: select_executions
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution
WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR path LIKE $2)
  AND created_at <= coalesce((SELECT last.created_at FROM execution AS last WHERE last.execution_id = $3), 'infinity')
  AND ($3::text IS NULL OR execution_id > $3
       OR created_at < (SELECT last.created_at FROM execution AS last WHERE last.execution_id = $3))
  AND created_at >= coalesce($5::float8, '-infinity') AND created_at < coalesce($6::float8, 'infinity')
  AND ($7::text IS NULL OR strpos(lower(execution_id), $7) > 0 OR strpos(lower(path), $7) > 0
       OR strpos(lower(name), $7) > 0)
  AND ($10::text IS NULL OR summary::json ->> 'error' = $10) AND ($11::text IS NULL OR summary::json ->> 'step' = $11)
  AND ($8::text[] IS NULL OR net_hash IN (
      SELECT net_hash FROM net
      WHERE NOT EXISTS (
          SELECT 1 FROM unnest($8::text[], $9::text[]) AS l (key, value)
          WHERE (convert_from(body, 'UTF8')::json -> 'metadata' -> 'labels' ->> l.key) IS DISTINCT FROM l.value)))
ORDER BY created_at DESC, execution_id LIMIT $4;

-- name: select_cursor
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: select_moved
-- The cursor and the rows come from one snapshot: the next query returns what was in progress then.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, x.execution_id, x.last_seq
FROM (SELECT DISTINCT unnest(m.execution_ids) AS execution_id FROM moves AS m WHERE m.xid >= $1) AS found
RIGHT JOIN (VALUES (1)) AS one ON true LEFT JOIN execution AS x USING (execution_id);

-- name: forget_moved
DELETE FROM moves WHERE xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint - $1::bigint;

-- name: select_timed
SELECT execution_id FROM timer WHERE wait_id = $1 LIMIT 1;

-- name: select_ended_nets
SELECT DISTINCT net_hash FROM execution WHERE finished_at IS NOT NULL ORDER BY net_hash;

-- name: select_outlived
SELECT x.execution_id FROM execution AS x
WHERE x.net_hash = $1 AND x.finished_at IS NOT NULL AND x.finished_at < $2
  AND NOT EXISTS (SELECT 1 FROM execution AS p WHERE p.execution_id = x.parent_execution_id AND p.finished_at IS NULL)
ORDER BY x.finished_at, x.execution_id LIMIT $3;

-- name: retire_executions
DELETE FROM execution WHERE execution_id = ANY ($1::text[]) AND finished_at IS NOT NULL RETURNING execution_id;

-- name: retire_rest
-- Once the rows of their executions are gone: events may go only then (EVT-01).
WITH e AS (DELETE FROM unpacked_event WHERE execution_id = ANY ($1::text[])),
     b AS (DELETE FROM earlier_batch WHERE execution_id = ANY ($1::text[])),
     h AS (DELETE FROM history WHERE execution_id = ANY ($1::text[])),
     j AS (DELETE FROM event_key WHERE execution_id = ANY ($1::text[])),
     k AS (DELETE FROM earlier_key
           WHERE execution = ANY (SELECT hashtextextended(one, 0) FROM unnest($1::text[]) AS one)),
     i AS (DELETE FROM timer WHERE execution_id = ANY ($1::text[])),
     o AS (DELETE FROM orders WHERE execution_id = ANY ($1::text[])),
     w AS (DELETE FROM wait WHERE execution_id = ANY ($1::text[])),
     n AS (DELETE FROM notice WHERE execution_id = ANY ($1::text[])),
     r AS (DELETE FROM request WHERE execution_id = ANY ($1::text[]))
DELETE FROM task WHERE execution_id = ANY ($1::text[]);

-- name: select_spans
SELECT suffix FROM history_span;

-- name: lock_spans
SELECT pg_advisory_xact_lock(hashtext('noetl spans'), hashtext(current_schema()));

-- name: add_span
SELECT add_span($1, $2, $3);

-- name: select_outlived_spans
-- That are over, and in which everything ended before the moment of its net ($1, $2).
SELECT s.suffix FROM history_span AS s
WHERE s.high <= $3 AND NOT EXISTS (
    SELECT 1 FROM execution AS x
    LEFT JOIN unnest($1::text[], $2::float8[]) AS k (net_hash, before) ON k.net_hash = x.net_hash
    WHERE x.execution_id >= s.low AND x.execution_id < s.high
      AND (x.finished_at IS NULL OR k.before IS NULL OR x.finished_at >= k.before
           OR EXISTS (SELECT 1 FROM execution AS p
                      WHERE p.execution_id = x.parent_execution_id AND p.finished_at IS NULL)))
ORDER BY s.low;

-- name: retire_span
DELETE FROM execution AS x
USING history_span AS s, unnest($2::text[], $3::float8[]) AS k (net_hash, before)
WHERE s.suffix = $1 AND x.execution_id >= s.low AND x.execution_id < s.high
  AND x.net_hash = k.net_hash AND x.finished_at < k.before
RETURNING x.execution_id, x.net_hash;

-- name: retire_rest_of_span
-- An execution of that time may have begun before its history was partitioned.
WITH u AS (DELETE FROM unpacked_event AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high),
     b AS (DELETE FROM earlier_batch AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high RETURNING t.execution_id),
     k AS (DELETE FROM earlier_key WHERE execution IN (SELECT hashtextextended(b.execution_id, 0) FROM b)),
     i AS (DELETE FROM timer AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high),
     o AS (DELETE FROM orders AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high),
     w AS (DELETE FROM wait AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high),
     n AS (DELETE FROM notice AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high),
     r AS (DELETE FROM request AS t USING history_span AS s
           WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high)
DELETE FROM task AS t USING history_span AS s
WHERE s.suffix = $1 AND t.execution_id >= s.low AND t.execution_id < s.high;

-- name: drop_span
SELECT drop_span($1);

-- name: select_checksums
SELECT DISTINCT (regexp_matches(payloads, '"checksum":"([0-9a-f]{64})"', 'g'))[1]
FROM batch WHERE payloads LIKE '%"checksum":"%'
UNION
SELECT DISTINCT (regexp_matches(payload, '"checksum":"([0-9a-f]{64})"', 'g'))[1]
FROM unpacked_event WHERE payload LIKE '%"checksum":"%'
UNION
SELECT DISTINCT (regexp_matches(payload, '"checksum":"([0-9a-f]{64})"', 'g'))[1]
FROM message WHERE payload LIKE '%"checksum":"%';

-- name: select_children
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution WHERE parent_execution_id = $1 ORDER BY created_at, execution_id;

-- name: tally_executions
SELECT status, count(*) FROM execution GROUP BY status;

-- name: select_ids
SELECT execution_id FROM execution
WHERE execution_id >= $1 AND starts_with(execution_id, $1) ORDER BY execution_id LIMIT $2;

-- name: select_orders
SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
FROM orders WHERE execution_id = $1 ORDER BY number;

-- name: select_claimable
-- Each pool by its own index, so that the backlog of one does not slow down another. Without pools given, those that
-- have ready orders are found by leaping from one to the next.
WITH RECURSIVE leap (pool) AS (
    (SELECT pool FROM orders WHERE state = 'ready' ORDER BY pool LIMIT 1)
    UNION ALL
    SELECT (SELECT o.pool FROM orders AS o WHERE o.state = 'ready' AND o.pool > leap.pool ORDER BY o.pool LIMIT 1)
    FROM leap WHERE leap.pool IS NOT NULL
), wanted (pool) AS (
    SELECT unnest($3::text[]) UNION ALL SELECT pool FROM leap WHERE $3::text[] IS NULL AND pool IS NOT NULL
)
SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
FROM (
    SELECT ready.* FROM wanted CROSS JOIN LATERAL (
        SELECT * FROM orders AS o WHERE o.pool = wanted.pool AND o.state = 'ready'
        ORDER BY o.priority DESC, o.number LIMIT $2
    ) AS ready
    UNION ALL
    SELECT * FROM orders WHERE state = 'leased' AND lease_until < $1 AND ($3::text[] IS NULL OR pool = ANY ($3))
) AS found
ORDER BY priority DESC, number LIMIT $2;

-- name: count_unclaimed
SELECT pool, count(*) FROM orders WHERE state = 'ready' OR (state = 'leased' AND lease_until < $1) GROUP BY pool;

-- name: select_leased
SELECT pool, count(*) FROM orders
WHERE state = 'leased' AND lease_until >= $1 AND ($2::text[] IS NULL OR pool = ANY ($2))
GROUP BY pool;

-- name: select_lapsed
SELECT lease_owner, max(lease_until) FROM orders
WHERE state = 'leased' AND lease_until < $1 AND lease_until > 0
GROUP BY lease_owner;

-- name: select_held_by
SELECT order_id, execution_id, step_run_id, state, pool, priority, lease_owner, lease_epoch, lease_until
FROM orders WHERE state = 'leased' AND lease_owner = $1 ORDER BY number;

-- name: select_now
SELECT extract(epoch FROM clock_timestamp())::float8;

-- name: lock_pools
-- Whoever takes orders of a pool with a capacity waits for the one before, so that each counts what is there.
SELECT pg_advisory_xact_lock(hashtext('noetl pool'), hashtext(current_schema() || '.' || pool))
FROM (SELECT DISTINCT pool FROM unnest($1::text[]) AS p (pool) ORDER BY pool) AS pools;

-- name: select_positions
SELECT execution_id, last_seq FROM execution WHERE execution_id = ANY ($1::text[]);

-- name: select_open_among
SELECT execution_id FROM execution WHERE execution_id = ANY ($1::text[]) AND finished_at IS NULL;

-- name: select_due
SELECT execution_id, trace_id, path, name, net_hash, status, last_seq, created_at, finished_at, parent_execution_id,
       wake_at, CASE WHEN counted_seq = last_seq THEN failed_iterations END,
       CASE WHEN counted_seq = last_seq THEN iterations END, summary
FROM execution WHERE wake_at <= $1 ORDER BY wake_at, execution_id LIMIT $2;

-- name: select_next_due
SELECT min(wake_at) FROM execution WHERE wake_at IS NOT NULL;

-- name: select_net
SELECT body FROM net WHERE net_hash = $1;

-- name: select_credential
SELECT name, type, version, key_id, wrapped_key, sealed, fingerprint, created_at, updated_at
FROM credential WHERE name = $1;

-- name: select_credentials
SELECT name, type, version, key_id, wrapped_key, sealed, fingerprint, created_at, updated_at
FROM credential ORDER BY name;

-- name: insert_credential
INSERT INTO credential (name, type, version, key_id, wrapped_key, sealed, fingerprint, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (name) DO NOTHING;

-- name: replace_credential
UPDATE credential SET type = $2, version = $3, key_id = $4, wrapped_key = $5, sealed = $6, fingerprint = $7,
                      created_at = $8, updated_at = $9
WHERE name = $1 AND version = $10 AND key_id = $11;

-- name: delete_credential
DELETE FROM credential WHERE name = $1;

-- name: lock_path
SELECT pg_advisory_xact_lock(hashtext('noetl catalog'), hashtext(current_schema() || '.' || $1));

-- name: insert_catalog
INSERT INTO catalog (path, version, net_hash, label, source, origin, registered_at)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: move_catalog_origin
UPDATE catalog SET origin = $1 WHERE path = $2 AND version = $3;

-- name: select_newest_version
SELECT path, version, net_hash, label, source, origin, registered_at
FROM catalog WHERE path = $1 ORDER BY version DESC LIMIT 1;

-- name: select_versions
SELECT path, version, net_hash, label, source, origin, registered_at
FROM catalog WHERE path = $1 ORDER BY version DESC;

-- name: select_catalog
SELECT DISTINCT ON (path) path, version, net_hash, label, source, origin, registered_at
FROM catalog ORDER BY path, version DESC LIMIT $1;

-- name: select_origin
SELECT origin FROM catalog WHERE net_hash = $1 AND origin IS NOT NULL ORDER BY registered_at DESC LIMIT 1;

-- name: insert_request
INSERT INTO request (execution_id, action, reason, requested_at) VALUES ($1, $2, $3, $4) RETURNING request_id;

-- name: select_pending_requests
SELECT request_id, execution_id, action, reason, requested_at, answer, answered_at
FROM request WHERE answer IS NULL ORDER BY request_id;

-- name: select_request
SELECT request_id, execution_id, action, reason, requested_at, answer, answered_at
FROM request WHERE request_id = $1;

-- name: answer_request
UPDATE request SET answer = $1, answered_at = $2 WHERE request_id = $3 AND answer IS NULL;

-- name: select_waiting
SELECT wait_id, execution_id, step_run_id, kind, name, correlation, opened_at
FROM wait
WHERE kind = $1 AND name = $2 AND ($3::text[] IS NULL OR correlation = ANY ($3))
ORDER BY opened_at, number;

-- name: select_waits_of
SELECT wait_id, execution_id, step_run_id, kind, name, correlation, opened_at
FROM wait WHERE execution_id = $1 ORDER BY opened_at, number;

-- name: select_newest_waits
SELECT wait_id, execution_id, step_run_id, kind, name, correlation, opened_at
FROM wait ORDER BY opened_at DESC, number DESC LIMIT $1;

-- name: insert_message
INSERT INTO message (message_id, name, correlation, payload, sent_at, expires_at, taken_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (message_id) DO NOTHING;

-- name: select_message
SELECT message_id, name, correlation, payload, sent_at, expires_at, taken_by FROM message WHERE message_id = $1;

-- name: select_kept
SELECT message_id, name, correlation, payload, sent_at, expires_at, taken_by
FROM message WHERE name = $1 AND taken_by IS NULL AND expires_at > $2 ORDER BY sent_at, number;

-- name: select_newest_kept
SELECT message_id, name, correlation, octet_length(payload), sent_at, expires_at FROM message
WHERE taken_by IS NULL AND expires_at > $1 AND ($2::text IS NULL OR name = $2)
  AND ($4::float8 IS NULL OR (sent_at, message_id) < ($4, $5::text))
ORDER BY sent_at DESC, message_id DESC LIMIT $3;

-- name: count_kept
SELECT count(*) FROM message WHERE name = $1 AND taken_by IS NULL AND expires_at > $2;

-- name: select_names_kept
SELECT DISTINCT name FROM message WHERE taken_by IS NULL AND expires_at > $1 ORDER BY name;

-- name: remove_message
DELETE FROM message WHERE message_id = $1 AND taken_by IS NULL AND expires_at > $2;

-- name: remove_named_messages
-- Whoever takes several messages may hold one of these rows and wait for another: if we waited too, for each other, none
-- would end. So what is being taken is left to its taker.
WITH free AS (
    SELECT message_id FROM message WHERE name = $1 AND taken_by IS NULL AND expires_at > $2 FOR UPDATE SKIP LOCKED)
DELETE FROM message WHERE message_id IN (SELECT message_id FROM free);

-- name: discard_messages
DELETE FROM message WHERE expires_at <= $1;

-- name: select_task
SELECT body FROM task WHERE task_id = $1;

-- name: select_tasks
SELECT body FROM task
WHERE ($1::text[] IS NULL OR state = ANY ($1))
  AND ($2::text IS NULL OR role = $2)
  AND ($3::text IS NULL OR assignee = $3 OR claimed_by = $3)
  AND (NOT $7::boolean OR (role IS NULL AND assignee IS NULL))
  AND ($4::text IS NULL OR execution_id = $4)
  AND created_at <= coalesce((SELECT last.created_at FROM task AS last WHERE last.task_id = $5), 'infinity')
  AND ($5::text IS NULL OR task_id > $5
       OR created_at < (SELECT last.created_at FROM task AS last WHERE last.task_id = $5))
ORDER BY created_at DESC, task_id LIMIT $6;

-- name: select_key_value
-- The table has an older name: a migration only adds, since servers of the version before go on meanwhile.
SELECT kind, name, version, body, updated_at FROM shelf WHERE kind = $1 AND name = $2;

-- name: select_key_values
SELECT kind, name, version, body, updated_at FROM shelf
WHERE kind = $1 AND name >= $2 AND starts_with(name, $2) AND ($3::text IS NULL OR name > $3)
ORDER BY name LIMIT $4;

-- name: select_key_values_beginning
-- A range of the index for each prefix: the last character there is ends it.
SELECT DISTINCT k.kind, k.name, k.version, k.body, k.updated_at
FROM unnest($2::text[]) AS p (prefix)
JOIN shelf AS k ON k.kind = $1 AND k.name >= p.prefix AND k.name < p.prefix || chr(1114111) ORDER BY k.name;

-- name: insert_key_value
INSERT INTO shelf (kind, name, version, body, updated_at) VALUES ($1, $2, 1, $3, $4)
ON CONFLICT (kind, name) DO NOTHING;

-- name: replace_key_value
UPDATE shelf SET version = version + 1, body = $3, updated_at = $4 WHERE kind = $1 AND name = $2 AND version = $5;

-- name: delete_key_value
DELETE FROM shelf WHERE kind = $1 AND name = $2 AND ($3::integer IS NULL OR version = $3);

-- name: sweep_key_values
DELETE FROM shelf WHERE kind = $1 AND updated_at < $2;

-- name: lock_audit
SELECT pg_advisory_xact_lock(hashtext('noetl audit'), hashtext(current_schema()));

-- name: select_last_audit
SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1;

-- name: insert_audit
-- The lock is held before the first row is made, and the trigger looks at what is there by then.
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtext('noetl audit'), hashtext(current_schema()))
)
INSERT INTO audit (seq, at, actor, action, object, address, outcome, prev_hash, hash)
SELECT given.* FROM locked, unnest($1::bigint[], $2::float8[], $3::text[], $4::text[], $5::text[], $6::text[],
                                   $7::text[], $8::text[], $9::text[]) AS given;

-- name: select_newest_audit
SELECT seq, at, actor, action, object, address, outcome, prev_hash, hash FROM audit
WHERE $1::bigint IS NULL OR seq < $1 ORDER BY seq DESC LIMIT $2;

-- name: select_audit
SELECT seq, at, actor, action, object, address, outcome, prev_hash, hash FROM audit
WHERE seq > $1 ORDER BY seq LIMIT $2;

-- name: put_notices
INSERT INTO notice (notice_id, execution_id, path, event, rule, state, created_at, due_at, attempts, fold_key, throttle_s,
                    folded, error, ended_at, body)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[], $8::float8[],
                     $9::integer[], $10::text[], $11::float8[], $12::integer[], $13::text[], $14::float8[], $15::bytea[])
ON CONFLICT (notice_id) DO NOTHING;

-- name: select_notice
SELECT notice_id, execution_id, path, event, rule, state, created_at, due_at, attempts, fold_key, throttle_s, folded,
       error, ended_at, body
FROM notice WHERE notice_id = $1;

-- name: select_notices
SELECT notice_id, execution_id, path, event, rule, state, created_at, due_at, attempts, fold_key, throttle_s, folded,
       error, ended_at, body
FROM notice
WHERE ($1::text[] IS NULL OR state = ANY ($1))
  AND ($2::text IS NULL OR execution_id = $2)
  AND ($3::text IS NULL OR (-created_at, notice_id)
       > (SELECT -last.created_at, last.notice_id FROM notice AS last WHERE last.notice_id = $3))
ORDER BY created_at DESC, notice_id LIMIT $4;

-- name: select_due_notice
SELECT 1 FROM notice WHERE state IN ('pending', 'sending') AND due_at <= $1 LIMIT 1;

-- name: lock_notices
SELECT pg_advisory_xact_lock(hashtext('noetl notices'), hashtext(current_schema()));

-- name: claim_notices
-- One that is throttled waits for an older one, for one that is being sent, and for the end of its time.
UPDATE notice SET state = 'sending', attempts = attempts + 1, due_at = $2
WHERE notice_id IN (
    SELECT n.notice_id FROM notice AS n
    WHERE n.state IN ('pending', 'sending') AND n.due_at <= $1
      AND NOT EXISTS (
          SELECT 1 FROM notice AS o
          WHERE o.fold_key = n.fold_key AND o.notice_id <> n.notice_id
            AND ((o.state = 'sending' AND o.due_at > $1)
                 OR (o.state = 'sent' AND o.ended_at > $1 - n.throttle_s)
                 OR (o.state IN ('pending', 'sending') AND (o.created_at, o.notice_id) < (n.created_at, n.notice_id))))
    ORDER BY n.due_at, n.notice_id LIMIT $3)
RETURNING notice_id;

-- name: count_folded
UPDATE notice AS l SET folded = l.folded + (
    SELECT coalesce(sum(1 + o.folded), 0) FROM notice AS o
    WHERE o.fold_key = l.fold_key AND o.notice_id <> l.notice_id AND o.state IN ('pending', 'sending'))
WHERE l.notice_id = $1 AND l.fold_key IS NOT NULL;

-- name: fold_notices
UPDATE notice SET state = 'folded', ended_at = $2
WHERE fold_key = (SELECT l.fold_key FROM notice AS l WHERE l.notice_id = $1)
  AND notice_id <> $1 AND state IN ('pending', 'sending');

-- name: settle_notice
UPDATE notice SET state = $1, due_at = $2, error = $3, ended_at = $4
WHERE notice_id = $5 AND attempts = $6 AND state = 'sending';

-- name: revive_notice
UPDATE notice SET state = 'pending', due_at = $1, attempts = 0, ended_at = NULL WHERE notice_id = $2 AND state = 'dead';

-- name: count_notices
SELECT state, count(*) FROM notice GROUP BY state;

-- name: sweep_notices
DELETE FROM notice WHERE ended_at < $1 AND state = ANY ($2::text[]);
