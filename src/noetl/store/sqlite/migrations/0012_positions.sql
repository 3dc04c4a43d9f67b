-- Events named by their position, and values of envelopes written once (docs/decisions/0018). `event_ids` has 0 for an
-- event that is named by its position; `envelopes` is as in event_batches.py, or in full as before. What is there stays.
DROP TRIGGER event_batch_has_keys;
-- Only ids that are no positions need a key of their own.
CREATE TRIGGER event_batch_has_keys AFTER INSERT ON event_batch WHEN instr(NEW.event_ids, '"')
BEGIN
    -- An id of the form of a position is that of the event which lies there.
    SELECT RAISE(ABORT, 'an id of this form is that of a position') FROM json_each(NEW.event_ids)
    WHERE substr(value, 1, length(NEW.execution_id) + 1) = NEW.execution_id || '/';
    INSERT INTO event_key SELECT NEW.execution_id, value FROM json_each(NEW.event_ids) WHERE type = 'text';
END;

DROP TRIGGER event_batch_has_ends;
CREATE TRIGGER event_batch_has_ends AFTER INSERT ON event_batch
WHEN instr(NEW.types, '"step.done"') OR instr(NEW.types, '"step.failed"') OR instr(NEW.types, '"playbook.processed"')
BEGIN
    INSERT INTO event_key
    SELECT NEW.execution_id,
           CASE WHEN e.type = 'playbook.processed' THEN 'end of execution'
                WHEN e.on_behalf THEN e.type || ' of ' || e.step_run_id
                ELSE 'end of ' || e.step_run_id END
    FROM (SELECT r.type, json_extract(r.envelope, '$[6]') AS on_behalf,
                 CASE WHEN NEW.envelopes LIKE '{%'
                      THEN json_extract(NEW.envelopes, '$.v[' || json_extract(r.envelope, '$[4]') || ']')
                      ELSE json_extract(r.envelope, '$[4]') END AS step_run_id
          FROM (SELECT t.value AS type,
                       json_extract(NEW.envelopes, CASE WHEN NEW.envelopes LIKE '{%' THEN '$.e[' ELSE '$[' END || t.key || ']')
                           AS envelope
                FROM json_each(NEW.types) AS t
                WHERE t.value IN ('step.done', 'step.failed', 'playbook.processed')) AS r) AS e
    WHERE e.type = 'playbook.processed' OR e.step_run_id IS NOT NULL;
END;

-- The triggers of a view go with it.
DROP VIEW event;
CREATE VIEW event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                   on_behalf, schema, payload, checksum) AS
SELECT b.execution_id, b.first_seq + i.key, i.value,
       json_extract(b.types, '$[' || i.key || ']'),
       json_extract(b.envelopes, '$[' || i.key || '][0]'), json_extract(b.envelopes, '$[' || i.key || '][1]'),
       json_extract(b.envelopes, '$[' || i.key || '][2]'), json_extract(b.envelopes, '$[' || i.key || '][3]'),
       json_extract(b.envelopes, '$[' || i.key || '][4]'), json_extract(b.envelopes, '$[' || i.key || '][5]'),
       json_extract(b.envelopes, '$[' || i.key || '][6]'), json_extract(b.envelopes, '$[' || i.key || '][7]'),
       json_extract(b.payloads, '$[' || i.key || ']'), NULL
FROM event_batch AS b, json_each(b.event_ids) AS i WHERE b.envelopes LIKE '[%'
UNION ALL
SELECT b.execution_id, b.first_seq + i.key,
       CASE WHEN i.type = 'text' THEN i.value ELSE b.execution_id || '/' || (b.first_seq + i.key) END,
       json_extract(b.types, '$[' || i.key || ']'),
       json_extract(b.envelopes, '$.v[' || json_extract(b.envelopes, '$.e[' || i.key || '][0]') || ']'),
       json_extract(b.envelopes, '$.v[' || json_extract(b.envelopes, '$.e[' || i.key || '][1]') || ']'),
       CASE WHEN json_extract(b.envelopes, '$.e[' || i.key || '][2]') >= 0
            THEN b.execution_id || '/' || json_extract(b.envelopes, '$.e[' || i.key || '][2]')
            ELSE json_extract(b.envelopes, '$.v[' || (-1 - json_extract(b.envelopes, '$.e[' || i.key || '][2]')) || ']')
       END,
       json_extract(b.envelopes, '$.v[' || json_extract(b.envelopes, '$.e[' || i.key || '][3]') || ']'),
       json_extract(b.envelopes, '$.v[' || json_extract(b.envelopes, '$.e[' || i.key || '][4]') || ']'),
       json_extract(b.envelopes, '$.v[' || json_extract(b.envelopes, '$.e[' || i.key || '][5]') || ']'),
       json_extract(b.envelopes, '$.e[' || i.key || '][6]'), json_extract(b.envelopes, '$.e[' || i.key || '][7]'),
       json_extract(b.payloads, '$[' || i.key || ']'), NULL
FROM event_batch AS b, json_each(b.event_ids) AS i WHERE b.envelopes LIKE '{%'
UNION ALL
SELECT execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema,
       payload, checksum
FROM unpacked_event;

CREATE TRIGGER event_becomes_a_row INSTEAD OF INSERT ON event
WHEN EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    INSERT INTO unpacked_event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id,
                                task_run_id, on_behalf, schema, payload, checksum)
    VALUES (NEW.execution_id, NEW.seq, NEW.event_id, NEW.event_type, NEW.ts, NEW.source, NEW.parent_id, NEW.step,
            NEW.step_run_id, NEW.task_run_id, NEW.on_behalf, NEW.schema, NEW.payload, NEW.checksum);
END;

CREATE TRIGGER event_becomes_a_batch INSTEAD OF INSERT ON event
WHEN NOT EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    INSERT INTO event_batch (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
    VALUES (NEW.execution_id, NEW.seq, NEW.seq, json_array(NEW.event_id), json_array(NEW.event_type),
            json_array(json_array(json(printf('%!.17g', NEW.ts)), NEW.source, NEW.parent_id, NEW.step, NEW.step_run_id,
                                  NEW.task_run_id, json(CASE WHEN NEW.on_behalf THEN 'true' ELSE 'false' END),
                                  NEW.schema)),
            '[' || NEW.payload || ']', NULL);
END;

CREATE TRIGGER event_is_not_changed INSTEAD OF UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER event_is_removed INSTEAD OF DELETE ON event
BEGIN
    DELETE FROM unpacked_event WHERE execution_id = OLD.execution_id;
    DELETE FROM event_batch WHERE execution_id = OLD.execution_id;
    DELETE FROM event_key WHERE execution_id = OLD.execution_id;
    DELETE FROM timer WHERE execution_id = OLD.execution_id;
END;
