-- Who did what, and how it ended. Each row holds the hash of the one before it (RELIABILITY 3.9).
CREATE TABLE audit (
    seq       bigint PRIMARY KEY,
    at        double precision NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    action    text COLLATE "C" NOT NULL,
    object    text COLLATE "C" NOT NULL,
    address   text COLLATE "C" NOT NULL,
    outcome   text COLLATE "C" NOT NULL,
    prev_hash text COLLATE "C" NOT NULL,
    hash      text COLLATE "C" NOT NULL
);

CREATE FUNCTION refuse_breaking_the_chain() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    last audit%ROWTYPE;
BEGIN
    SELECT * INTO last FROM audit ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 OR NEW.prev_hash <> coalesce(last.hash, repeat('0', 64)) THEN
        RAISE EXCEPTION 'an audit row follows the last one';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is appended to and never changed';
END
$$;

CREATE TRIGGER audit_is_a_chain BEFORE INSERT ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_breaking_the_chain();
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
REVOKE UPDATE, DELETE, TRUNCATE ON audit FROM PUBLIC, CURRENT_USER;
