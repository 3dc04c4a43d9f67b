-- History by time, and events named by their position (docs/decisions/0018, 0019). What is there stays where it is, in
-- `earlier_batch` and `earlier_key`, until retention removes it; everything new lies in partitions by execution id, which
-- is by the time at which the execution began. An execution that was open goes on in `history`.
ALTER TABLE event_batch RENAME TO earlier_batch;
ALTER TABLE event_key RENAME TO earlier_key;
DROP TRIGGER event_batch_follows_the_last ON earlier_batch;
DROP TRIGGER event_batch_has_keys ON earlier_batch;

-- `event_ids` is a JSON array with 0 for an event that is named by its position, `envelopes` as in event_batches.py, or
-- in full as a program of the version before writes them.
CREATE TABLE history (
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
) PARTITION BY RANGE (execution_id);

-- What an execution has once and no position guards: ids that are not positions, its own end, and the ends of its step
-- runs, one by a worker and one of a kind by the server. `key` is a hash of 64 bits.
CREATE TABLE event_key (
    execution_id text COLLATE "C" NOT NULL,
    key          bigint NOT NULL,
    PRIMARY KEY (execution_id, key)
) PARTITION BY RANGE (execution_id);

-- The partitions that hold a span of time, each with the same bounds in both tables.
CREATE TABLE history_span (
    suffix text COLLATE "C" PRIMARY KEY,
    low    text COLLATE "C" NOT NULL UNIQUE,
    high   text COLLATE "C" NOT NULL UNIQUE
);

CREATE FUNCTION add_partition(suffix text, bounds text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    parent text;
    child  text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['history', 'event_key'] LOOP
        child := parent || '_' || suffix;
        EXECUTE format('CREATE TABLE %I PARTITION OF %I %s', child, parent, bounds);
        -- A trigger of the parent on TRUNCATE, and its privileges, do not hold for whoever names the partition itself.
        EXECUTE format('CREATE TRIGGER is_never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT'
                       ' EXECUTE FUNCTION refuse_change()', child);
        EXECUTE format('REVOKE UPDATE, TRUNCATE ON %I FROM PUBLIC, CURRENT_USER', child);
    END LOOP;
END
$$;

-- Ids of another form than a UUIDv7 lie before or behind all times. Without these two, making a partition would mean
-- to read all of them, since PostgreSQL looks whether the default partition has rows of it.
SELECT add_partition('before', 'FOR VALUES FROM (MINVALUE) TO (''017'')');
SELECT add_partition('behind', 'FOR VALUES FROM (''02'') TO (MAXVALUE)');
SELECT add_partition('rest', 'DEFAULT');

-- False where rows of that span are in the default partition already: they stay there.
CREATE FUNCTION add_span(suffix text, low text, high text) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM history_span AS s WHERE s.low < add_span.high AND s.high > add_span.low)
       OR EXISTS (SELECT 1 FROM history_rest AS h WHERE h.execution_id >= add_span.low AND h.execution_id < add_span.high)
       OR EXISTS (SELECT 1 FROM event_key_rest AS k
                  WHERE k.execution_id >= add_span.low AND k.execution_id < add_span.high) THEN
        RETURN false;
    END IF;
    PERFORM add_partition(suffix, format('FOR VALUES FROM (%L) TO (%L)', low, high));
    INSERT INTO history_span VALUES (suffix, low, high);
    RETURN true;
END
$$;

-- Events go with their executions, never before them (EVT-01).
CREATE FUNCTION drop_span(suffix text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    span history_span%ROWTYPE;
BEGIN
    DELETE FROM history_span AS s WHERE s.suffix = drop_span.suffix RETURNING * INTO STRICT span;
    IF EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id >= span.low AND x.execution_id < span.high) THEN
        RAISE EXCEPTION 'events are never deleted while their execution stands';
    END IF;
    EXECUTE format('DROP TABLE %I, %I', 'history_' || suffix, 'event_key_' || suffix);
END
$$;

CREATE OR REPLACE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.first_seq <> 1 + coalesce(
           (SELECT h.last_seq FROM history AS h WHERE h.execution_id = NEW.execution_id
            ORDER BY h.first_seq DESC LIMIT 1),
           (SELECT b.last_seq FROM earlier_batch AS b WHERE b.execution_id = NEW.execution_id
            ORDER BY b.first_seq DESC LIMIT 1), 0)
       OR EXISTS (SELECT 1 FROM unpacked_event AS e WHERE e.execution_id = NEW.execution_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation', TABLE = 'history',
            MESSAGE = 'a batch of events follows the last event of its execution',
            DETAIL = 'execution ' || NEW.execution_id || ', event ' || NEW.first_seq;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER history_follows_the_last BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION refuse_gap();

CREATE FUNCTION refuse_key() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'unique_violation', TABLE = 'event_key',
        MESSAGE = 'an event id, or an end, is stored once';
END
$$;

CREATE OR REPLACE FUNCTION add_event_keys() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    refused boolean;
BEGIN
    IF EXISTS (SELECT 1 FROM added WHERE event_ids LIKE '%"%') THEN
        -- An id of the form of a position is that of the event which lies there.
        PERFORM refuse_key() FROM added AS b, json_array_elements_text(b.event_ids::json) AS i (id)
        WHERE starts_with(i.id, b.execution_id || '/');
        INSERT INTO event_key (execution_id, key)
        SELECT b.execution_id, hashtextextended(i.id #>> '{}', 0)
        FROM added AS b, json_array_elements(b.event_ids::json) AS i (id) WHERE json_typeof(i.id) = 'string';
        PERFORM refuse_key() FROM added AS b, json_array_elements_text(b.event_ids::json) AS i (id)
        JOIN earlier_key AS k ON k.key = hashtextextended(i.id, 0)
        WHERE k.execution = hashtextextended(b.execution_id, 0);
    END IF;
    IF EXISTS (SELECT 1 FROM added WHERE types ~ '"(step\.done|step\.failed|playbook\.processed)"') THEN
        WITH one_end AS (
            SELECT b.execution_id, e.type, e.envelope ->> 6 IN ('1', 'true') AS on_behalf,
                   CASE WHEN starts_with(b.envelopes, '{') THEN b.envelopes::json -> 'v' ->> (e.envelope ->> 4)::integer
                        ELSE e.envelope ->> 4 END AS step_run_id
            FROM added AS b,
                 ROWS FROM (json_array_elements_text(b.types::json),
                            json_array_elements(CASE WHEN starts_with(b.envelopes, '{') THEN b.envelopes::json -> 'e'
                                                     ELSE b.envelopes::json END)) AS e (type, envelope)
            WHERE e.type IN ('step.done', 'step.failed', 'playbook.processed')
        ), keyed AS (
            SELECT o.execution_id, hashtextextended(
                CASE WHEN o.type = 'playbook.processed' THEN 'end of execution'
                     WHEN o.on_behalf THEN o.type || ' of ' || o.step_run_id
                     ELSE 'end of ' || o.step_run_id END, 0) AS key
            FROM one_end AS o WHERE o.type = 'playbook.processed' OR o.step_run_id IS NOT NULL
        ), put AS (
            INSERT INTO event_key (execution_id, key) SELECT * FROM keyed
        )
        SELECT refuse_key() INTO refused FROM keyed AS n
        JOIN earlier_key AS k ON k.execution = hashtextextended(n.execution_id, 0) AND k.key = n.key;
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
CREATE TRIGGER history_has_keys AFTER INSERT ON history REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION add_event_keys();

-- For each row, and so also for whoever names a partition.
CREATE TRIGGER history_is_never_changed BEFORE UPDATE ON history FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER history_is_never_emptied BEFORE TRUNCATE ON history FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER history_is_never_deleted BEFORE DELETE ON history FOR EACH ROW
    WHEN (stands(OLD.execution_id)) EXECUTE FUNCTION refuse_deletion();
CREATE TRIGGER event_key_is_never_changed BEFORE UPDATE ON event_key FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_key_is_never_emptied BEFORE TRUNCATE ON event_key
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_key_is_never_deleted BEFORE DELETE ON event_key FOR EACH ROW
    WHEN (stands(OLD.execution_id)) EXECUTE FUNCTION refuse_deletion();
REVOKE UPDATE, TRUNCATE ON history, event_key FROM PUBLIC, CURRENT_USER;

CREATE OR REPLACE FUNCTION stands_by_key(execution bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM earlier_batch AS b JOIN execution AS x USING (execution_id)
                   WHERE hashtextextended(b.execution_id, 0) = stands_by_key.execution AND b.first_seq = 1)
$$;

-- Where this program reads.
CREATE VIEW batch AS
SELECT execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum FROM history
UNION ALL
SELECT execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum FROM earlier_batch;

-- Where a program of the version before reads and writes while newer ones serve (reliability.md §3.8): ids and envelopes
-- in full, without the checksum where they were not stored so.
CREATE FUNCTION full_ids(execution text, first_seq bigint, ids text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_agg(CASE WHEN json_typeof(i.id) = 'string' THEN i.id
                         ELSE to_json(execution || '/' || (first_seq + i.place - 1)) END ORDER BY i.place)::text
    FROM json_array_elements(ids::json) WITH ORDINALITY AS i (id, place)
$$;
CREATE FUNCTION full_envelopes(execution text, envelopes text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_agg(json_build_array(
               d.v -> (r.e ->> 0)::integer, d.v -> (r.e ->> 1)::integer,
               CASE WHEN (r.e ->> 2)::bigint >= 0 THEN to_json(execution || '/' || (r.e ->> 2))
                    ELSE d.v -> (-1 - (r.e ->> 2)::integer) END,
               d.v -> (r.e ->> 3)::integer, d.v -> (r.e ->> 4)::integer, d.v -> (r.e ->> 5)::integer,
               r.e ->> 6 = '1', (r.e ->> 7)::integer) ORDER BY r.place)::text
    FROM (SELECT envelopes::json -> 'v' AS v) AS d,
         json_array_elements(envelopes::json -> 'e') WITH ORDINALITY AS r (e, place)
$$;
DROP VIEW event;
CREATE VIEW event_batch AS
SELECT execution_id, first_seq, last_seq,
       CASE WHEN starts_with(envelopes, '[') THEN event_ids
            ELSE full_ids(execution_id, first_seq, event_ids) END COLLATE "C" AS event_ids,
       types,
       CASE WHEN starts_with(envelopes, '[') THEN envelopes
            ELSE full_envelopes(execution_id, envelopes) END COLLATE "C" AS envelopes,
       payloads, CASE WHEN starts_with(envelopes, '[') THEN checksum END AS checksum
FROM batch;

CREATE FUNCTION add_batch() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO history (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
    VALUES (NEW.execution_id, NEW.first_seq, NEW.last_seq, NEW.event_ids, NEW.types, NEW.envelopes, NEW.payloads,
            NEW.checksum);
    RETURN NEW;
END
$$;
CREATE TRIGGER event_batch_is_added INSTEAD OF INSERT ON event_batch FOR EACH ROW EXECUTE FUNCTION add_batch();

CREATE FUNCTION remove_history(execution text) RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS $$
    DELETE FROM unpacked_event AS u WHERE u.execution_id = remove_history.execution;
    DELETE FROM earlier_batch AS b WHERE b.execution_id = remove_history.execution;
    DELETE FROM history AS h WHERE h.execution_id = remove_history.execution;
    DELETE FROM event_key AS k WHERE k.execution_id = remove_history.execution;
    DELETE FROM earlier_key AS k WHERE k.execution = hashtextextended(remove_history.execution, 0);
    DELETE FROM timer AS t WHERE t.execution_id = remove_history.execution;
$$;
CREATE OR REPLACE FUNCTION remove_event() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM remove_history(OLD.execution_id);
    RETURN OLD;
END
$$;
CREATE TRIGGER event_batch_is_removed INSTEAD OF DELETE ON event_batch FOR EACH ROW EXECUTE FUNCTION remove_event();
CREATE TRIGGER event_batch_is_not_changed INSTEAD OF UPDATE ON event_batch
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_batch_is_never_changed BEFORE UPDATE ON event_batch
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
REVOKE UPDATE ON event_batch FROM PUBLIC, CURRENT_USER;

-- The events one by one, for people and for programs before the one before.
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
CREATE TRIGGER event_is_added INSTEAD OF INSERT ON event FOR EACH ROW EXECUTE FUNCTION add_event();
CREATE TRIGGER event_is_removed INSTEAD OF DELETE ON event FOR EACH ROW EXECUTE FUNCTION remove_event();
CREATE TRIGGER event_is_not_changed INSTEAD OF UPDATE ON event FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
REVOKE UPDATE ON event FROM PUBLIC, CURRENT_USER;

-- Which executions have moved: one row for each commit, whatever the number of executions. The view is for programs of
-- the version before.
DROP TABLE moved;
CREATE UNLOGGED TABLE moves (
    xid           bigint NOT NULL,
    execution_ids text[] NOT NULL
);
CREATE INDEX moves_by_xid ON moves (xid);
CREATE VIEW moved AS SELECT m.xid, e.id COLLATE "C" AS execution_id FROM moves AS m, unnest(m.execution_ids) AS e (id);
CREATE FUNCTION add_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO moves VALUES (NEW.xid, ARRAY[NEW.execution_id]);
    RETURN NEW;
END
$$;
CREATE FUNCTION remove_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM moves WHERE xid = OLD.xid;
    RETURN OLD;
END
$$;
CREATE TRIGGER move_is_added INSTEAD OF INSERT ON moved FOR EACH ROW EXECUTE FUNCTION add_move();
CREATE TRIGGER move_is_removed INSTEAD OF DELETE ON moved FOR EACH ROW EXECUTE FUNCTION remove_move();

-- Closed orders leave the table since 0004, so the primary key finds those of an execution. An order that is claimed
-- was written into this index once more.
DROP INDEX open_orders;
