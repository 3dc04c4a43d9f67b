-- What a commit adds to the history of one execution is one row (docs/decisions/0016). Ids, types, envelopes and payloads
-- are JSON arrays in the order of `seq`. `checksum` is of all four; none: an earlier program wrote it to the view `event`.
ALTER TABLE event RENAME TO unpacked_event;

CREATE TABLE event_batch (
    execution_id text COLLATE "C" NOT NULL,
    first_seq    bigint NOT NULL,
    last_seq     bigint NOT NULL,
    event_ids    text COLLATE "C" NOT NULL,
    types        text COLLATE "C" NOT NULL,
    envelopes    text COLLATE "C" NOT NULL,
    payloads     text COLLATE "C" NOT NULL,
    checksum     bigint,
    PRIMARY KEY (execution_id, first_seq),
    CHECK (json_array_length(event_ids::json) = last_seq - first_seq + 1),
    CHECK (json_array_length(types::json) = last_seq - first_seq + 1)
);

CREATE TYPE event_batch_row AS (
    execution_id text COLLATE "C",
    first_seq    bigint,
    last_seq     bigint,
    event_ids    text COLLATE "C",
    types        text COLLATE "C",
    envelopes    text COLLATE "C",
    payloads     text COLLATE "C",
    checksum     bigint
);

-- What an execution has once, whatever the programs above believe: each event id, its own end, and the ends of its step
-- runs, one by a worker, and one of a kind by the server (RELIABILITY, decision 4). Both columns are hashes of 64 bits: a
-- row of texts takes three times as much, and there is one for each event.
CREATE TABLE event_key (
    execution bigint NOT NULL,
    key       bigint NOT NULL,
    PRIMARY KEY (execution, key)
);

CREATE TABLE timer (
    wait_id      text COLLATE "C" NOT NULL,
    execution_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (execution_id, wait_id)
);
CREATE INDEX timer_by_wait ON timer (wait_id);

-- The execution whose rows are being packed; empty outside of that transaction.
CREATE TABLE packing (execution_id text COLLATE "C" PRIMARY KEY);

CREATE FUNCTION is_unpacked(execution text) RETURNS boolean LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM unpacked_event AS e WHERE e.execution_id = is_unpacked.execution)
$$;

CREATE FUNCTION is_packing(execution text) RETURNS boolean LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM packing AS p WHERE p.execution_id = is_packing.execution)
$$;

-- Two that follow the same event begin with the same number, so the primary key decides between them; this one refuses
-- gaps, and what follows another event. The history of an execution lies in rows or in batches, never in both.
CREATE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.first_seq <> 1 + coalesce((SELECT b.last_seq FROM event_batch AS b WHERE b.execution_id = NEW.execution_id
                                      ORDER BY b.first_seq DESC LIMIT 1), 0)
       OR EXISTS (SELECT 1 FROM unpacked_event AS e WHERE e.execution_id = NEW.execution_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation', TABLE = 'event_batch',
            MESSAGE = 'a batch of events follows the last event of its execution',
            DETAIL = 'execution ' || NEW.execution_id || ', event ' || NEW.first_seq;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER event_batch_follows_the_last BEFORE INSERT ON event_batch FOR EACH ROW EXECUTE FUNCTION refuse_gap();

CREATE FUNCTION add_event_keys() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_key (execution, key)
    SELECT hashtextextended(b.execution_id, 0), hashtextextended(i.id, 0)
    FROM added AS b, json_array_elements_text(b.event_ids::json) AS i (id);
    IF EXISTS (SELECT 1 FROM added WHERE types ~ '"(step\.done|step\.failed|playbook\.processed)"') THEN
        INSERT INTO event_key (execution, key)
        SELECT hashtextextended(b.execution_id, 0), hashtextextended(
            CASE WHEN e.type = 'playbook.processed' THEN 'end of execution'
                 WHEN (e.envelope ->> 6)::boolean THEN e.type || ' of ' || (e.envelope ->> 4)
                 ELSE 'end of ' || (e.envelope ->> 4) END, 0)
        FROM added AS b,
             ROWS FROM (json_array_elements_text(b.types::json), json_array_elements(b.envelopes::json))
                 AS e (type, envelope)
        WHERE e.type = 'playbook.processed'
           OR (e.type IN ('step.done', 'step.failed') AND e.envelope ->> 4 IS NOT NULL);
    END IF;
    IF EXISTS (SELECT 1 FROM added WHERE types LIKE '%"timer.scheduled"%') THEN
        INSERT INTO timer (wait_id, execution_id)
        SELECT e.payload ->> 'wait_id', b.execution_id
        FROM added AS b,
             ROWS FROM (json_array_elements_text(b.types::json), json_array_elements(b.payloads::json))
                 AS e (type, payload)
        WHERE e.type = 'timer.scheduled' AND e.payload ->> 'wait_id' IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER event_batch_has_keys AFTER INSERT ON event_batch REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION add_event_keys();

CREATE TRIGGER event_batch_is_never_changed BEFORE UPDATE ON event_batch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_batch_is_never_emptied BEFORE TRUNCATE ON event_batch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_batch_is_never_deleted BEFORE DELETE ON event_batch FOR EACH ROW
    WHEN (stands(OLD.execution_id)) EXECUTE FUNCTION refuse_deletion();

CREATE INDEX event_batch_by_key ON event_batch (hashtextextended(execution_id, 0)) WHERE first_seq = 1;
CREATE FUNCTION stands_by_key(execution bigint) RETURNS boolean LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM event_batch AS b JOIN execution AS x USING (execution_id)
                   WHERE hashtextextended(b.execution_id, 0) = stands_by_key.execution AND b.first_seq = 1)
$$;
CREATE TRIGGER event_key_is_never_changed BEFORE UPDATE ON event_key
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_key_is_never_emptied BEFORE TRUNCATE ON event_key
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_key_is_never_deleted BEFORE DELETE ON event_key FOR EACH ROW
    WHEN (stands_by_key(OLD.execution)) EXECUTE FUNCTION refuse_deletion();
REVOKE UPDATE, TRUNCATE ON event_batch, event_key FROM PUBLIC, CURRENT_USER;

DROP TRIGGER event_is_never_deleted ON unpacked_event;
CREATE TRIGGER unpacked_event_is_never_deleted BEFORE DELETE ON unpacked_event FOR EACH ROW
    WHEN (stands(OLD.execution_id) AND NOT is_packing(OLD.execution_id)) EXECUTE FUNCTION refuse_deletion();

-- The events one by one, for people and for programs of the version before: these go on reading and writing here while a
-- program of this version has the store too (RELIABILITY 3.8).
CREATE VIEW event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                   on_behalf, schema, payload, checksum) AS
SELECT b.execution_id, b.first_seq + e.place - 1, e.event_id COLLATE "C", e.type COLLATE "C",
       (e.envelope ->> 0)::float8, (e.envelope ->> 1) COLLATE "C", (e.envelope ->> 2) COLLATE "C",
       (e.envelope ->> 3) COLLATE "C", (e.envelope ->> 4) COLLATE "C", (e.envelope ->> 5) COLLATE "C",
       (e.envelope ->> 6)::boolean, (e.envelope ->> 7)::integer, e.payload::text COLLATE "C", NULL::bigint
FROM event_batch AS b,
     ROWS FROM (json_array_elements_text(b.event_ids::json), json_array_elements_text(b.types::json),
                json_array_elements(b.envelopes::json), json_array_elements(b.payloads::json))
         WITH ORDINALITY AS e (event_id, type, envelope, payload, place)
UNION ALL
SELECT execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema,
       payload, checksum
FROM unpacked_event;

CREATE FUNCTION add_event() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF is_unpacked(NEW.execution_id) THEN
        INSERT INTO unpacked_event
            (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf,
             schema, payload, checksum)
        VALUES (NEW.execution_id, NEW.seq, NEW.event_id, NEW.event_type, NEW.ts, NEW.source, NEW.parent_id, NEW.step,
                NEW.step_run_id, NEW.task_run_id, NEW.on_behalf, NEW.schema, NEW.payload, NEW.checksum);
    ELSE
        INSERT INTO event_batch
            (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
        VALUES (NEW.execution_id, NEW.seq, NEW.seq, json_build_array(NEW.event_id), json_build_array(NEW.event_type),
                json_build_array(json_build_array(NEW.ts, NEW.source, NEW.parent_id, NEW.step, NEW.step_run_id,
                                                  NEW.task_run_id, NEW.on_behalf, NEW.schema)),
                '[' || NEW.payload || ']', NULL);
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER event_is_added INSTEAD OF INSERT ON event FOR EACH ROW EXECUTE FUNCTION add_event();

CREATE FUNCTION remove_event() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM unpacked_event WHERE execution_id = OLD.execution_id;
    DELETE FROM event_batch WHERE execution_id = OLD.execution_id;
    DELETE FROM event_key WHERE execution = hashtextextended(OLD.execution_id, 0);
    DELETE FROM timer WHERE execution_id = OLD.execution_id;
    RETURN OLD;
END
$$;
CREATE TRIGGER event_is_removed INSTEAD OF DELETE ON event FOR EACH ROW EXECUTE FUNCTION remove_event();
CREATE TRIGGER event_is_not_changed INSTEAD OF UPDATE ON event FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
REVOKE UPDATE ON event FROM PUBLIC, CURRENT_USER;
