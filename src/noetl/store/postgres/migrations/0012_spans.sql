-- Making and dropping partitions while servers are at work (docs/decisions/0019).
-- A table that is made first and attached then locks the parent against other such changes only; PARTITION OF would lock
-- it against everybody.
CREATE OR REPLACE FUNCTION add_partition(suffix text, bounds text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    parent text;
    child  text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['history', 'event_key'] LOOP
        child := parent || '_' || suffix;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
        -- A trigger of the parent on TRUNCATE, and its privileges, do not hold for whoever names the partition itself.
        EXECUTE format('CREATE TRIGGER is_never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT'
                       ' EXECUTE FUNCTION refuse_change()', child);
        EXECUTE format('REVOKE UPDATE, TRUNCATE ON %I FROM PUBLIC, CURRENT_USER', child);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I %s', parent, child, bounds);
    END LOOP;
END
$$;

-- Events go with their executions, never before them (EVT-01). Whoever commits holds a lock on these tables until its
-- transaction has ended, so what is looked for below is all there is.
CREATE OR REPLACE FUNCTION drop_span(suffix text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    span history_span%ROWTYPE;
BEGIN
    LOCK TABLE ONLY history, ONLY event_key IN ACCESS EXCLUSIVE MODE;
    DELETE FROM history_span AS s WHERE s.suffix = drop_span.suffix RETURNING * INTO STRICT span;
    IF EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id >= span.low AND x.execution_id < span.high) THEN
        RAISE EXCEPTION 'events are never deleted while their execution stands';
    END IF;
    EXECUTE format('DROP TABLE %I, %I', 'history_' || suffix, 'event_key_' || suffix);
END
$$;
