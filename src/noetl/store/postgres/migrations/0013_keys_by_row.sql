-- The same promises as in 0011, for less: two triggers took a third of what PostgreSQL needed for the commit of a step
-- (docs/benchmarks.md). Both are triggers for each row now, without a table of what was added, and hold for whoever names
-- a partition too.
DROP TRIGGER history_follows_the_last ON history;
DROP TRIGGER history_has_keys ON history;
DROP FUNCTION refuse_gap();
DROP FUNCTION add_event_keys();

CREATE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    -- The usual case first, with one look: earlier versions stored nothing of an execution that `history` has.
    IF NEW.first_seq - 1 = (SELECT h.last_seq FROM history AS h WHERE h.execution_id = NEW.execution_id
                            ORDER BY h.first_seq DESC LIMIT 1) THEN
        RETURN NEW;
    END IF;
    IF EXISTS (SELECT 1 FROM history AS h WHERE h.execution_id = NEW.execution_id)
       OR NEW.first_seq - 1 <> coalesce((SELECT b.last_seq FROM earlier_batch AS b
                                         WHERE b.execution_id = NEW.execution_id
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

-- One statement for each key, and not one for all of them: PostgreSQL would plan a statement over an array anew each time.
CREATE FUNCTION add_event_key(execution text, name text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_key (execution_id, key) VALUES (execution, hashtextextended(name, 0));
    IF EXISTS (SELECT 1 FROM earlier_key AS e
               WHERE e.execution = hashtextextended(add_event_key.execution, 0)
                 AND e.key = hashtextextended(name, 0)) THEN
        PERFORM refuse_key();
    END IF;
END
$$;

-- Keys are ids that are no position, the end of the execution, and the ends of its step runs: one by a worker, and one of
-- a kind by the server.
CREATE FUNCTION add_event_keys() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    number constant bigint := NEW.last_seq - NEW.first_seq + 1;
    names  constant text[] := string_to_array(btrim(NEW.types, '[]"'), '","');
    places text[];
    place  integer;
    kind   text;
    run    text;
BEGIN
    IF NEW.event_ids LIKE '%"%' THEN
        -- An id of the form of a position is that of the event which lies there.
        PERFORM CASE WHEN starts_with(i.id #>> '{}', NEW.execution_id || '/') THEN refuse_key() END,
                add_event_key(NEW.execution_id, i.id #>> '{}')
        FROM json_array_elements(NEW.event_ids::json) AS i (id) WHERE json_typeof(i.id) = 'string';
    END IF;
    IF NEW.types ~ '"(step\.done|step\.failed|playbook\.processed)"' THEN
        -- Types and places are cut as text where they are written as this program writes them: to parse them as JSON
        -- took four times as long. In text without a backslash a quote ends a string, so that neither separator can be
        -- within one, and what has spaces between its values does not fall into as many pieces as there are events.
        places := string_to_array(split_part(NEW.envelopes, '],"e":[[', 2), '],[');
        IF strpos(NEW.types, '\') > 0 OR cardinality(names) <> number OR cardinality(places) <> number THEN
            PERFORM add_event_key(NEW.execution_id, e.name) FROM ends_in(NEW.types::json, NEW.envelopes::json) AS e;
        ELSE
            FOREACH kind IN ARRAY '{step.done,step.failed,playbook.processed}'::text[] LOOP
                place := array_position(names, kind);
                WHILE place IS NOT NULL LOOP
                    run := NEW.envelopes::json #>> ARRAY['v', split_part(places[place], ',', 5)];
                    IF kind = 'playbook.processed' THEN
                        PERFORM add_event_key(NEW.execution_id, 'end of execution');
                    ELSIF run IS NOT NULL THEN
                        PERFORM add_event_key(NEW.execution_id, CASE split_part(places[place], ',', 7)
                                                                WHEN '1' THEN kind || ' of ' ELSE 'end of ' END || run);
                    END IF;
                    place := array_position(names, kind, place + 1);
                END LOOP;
            END LOOP;
        END IF;
    END IF;
    IF 'timer.scheduled' = ANY (names) THEN
        INSERT INTO timer (wait_id, execution_id)
        SELECT e.payload ->> 'wait_id', NEW.execution_id
        FROM ROWS FROM (json_array_elements_text(NEW.types::json), json_array_elements(NEW.payloads::json))
                 AS e (type, payload)
        WHERE e.type = 'timer.scheduled' AND e.payload ->> 'wait_id' IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER history_has_keys BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION add_event_keys();

-- What a batch ends, for one that is written in another way.
CREATE FUNCTION ends_in(types json, envelopes json) RETURNS TABLE (name text) LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN o.type = 'playbook.processed' THEN 'end of execution'
                WHEN o.on_behalf THEN o.type || ' of ' || o.step_run_id
                ELSE 'end of ' || o.step_run_id END
    FROM (SELECT e.type, e.envelope ->> 6 IN ('1', 'true') AS on_behalf,
                 CASE json_typeof(envelopes) WHEN 'object' THEN envelopes -> 'v' ->> (e.envelope ->> 4)::integer
                                             ELSE e.envelope ->> 4 END AS step_run_id
          FROM ROWS FROM (json_array_elements_text(types),
                          json_array_elements(CASE json_typeof(envelopes) WHEN 'object' THEN envelopes -> 'e'
                                                                          ELSE envelopes END)) AS e (type, envelope)
          WHERE e.type IN ('step.done', 'step.failed', 'playbook.processed')) AS o
    WHERE o.type = 'playbook.processed' OR o.step_run_id IS NOT NULL
$$;
