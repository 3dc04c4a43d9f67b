-- The event log is the truth; it is only ever appended to (EVT-01). Everything else can be told from it.
-- Texts sort by their bytes, as in every other backend. The execution leads each key of what belongs to one, so that
-- these tables can be partitioned by it (docs/scaling.md). Moments are seconds of the clock that the callers use.
CREATE TABLE net (
    net_hash text COLLATE "C" PRIMARY KEY,
    body     bytea NOT NULL
);

-- A commit moves `last_seq` and little else: room on each page lets it stay there, and no index is touched.
CREATE TABLE execution (
    execution_id        text COLLATE "C" PRIMARY KEY,
    trace_id            text COLLATE "C" NOT NULL,
    path                text COLLATE "C" NOT NULL,
    name                text COLLATE "C" NOT NULL,
    net_hash            text COLLATE "C" NOT NULL,
    status              text COLLATE "C" NOT NULL,
    last_seq            bigint NOT NULL,
    created_at          double precision NOT NULL,
    finished_at         double precision,
    parent_execution_id text COLLATE "C",
    wake_at             double precision
) WITH (fillfactor = 70);

CREATE INDEX execution_by_age ON execution (created_at DESC, execution_id);
CREATE INDEX execution_by_status ON execution (status, created_at DESC, execution_id);
CREATE INDEX execution_by_path ON execution (path, created_at DESC, execution_id);
CREATE INDEX execution_by_parent ON execution (parent_execution_id) WHERE parent_execution_id IS NOT NULL;
CREATE INDEX execution_by_alarm ON execution (wake_at, execution_id) WHERE wake_at IS NOT NULL;

CREATE TABLE event (
    execution_id text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    event_type   text COLLATE "C" NOT NULL,
    ts           double precision NOT NULL,
    source       text COLLATE "C" NOT NULL,
    parent_id    text COLLATE "C",
    step         text COLLATE "C",
    step_run_id  text COLLATE "C",
    task_run_id  text COLLATE "C",
    on_behalf    boolean NOT NULL,
    schema       integer NOT NULL,
    payload      text COLLATE "C" NOT NULL,
    PRIMARY KEY (execution_id, seq),
    UNIQUE (execution_id, event_id)
);

-- One end per execution and per step run, whatever the programs above believe (RELIABILITY, decision 4).
CREATE UNIQUE INDEX one_end_per_execution ON event (execution_id) WHERE event_type = 'playbook.processed';
CREATE UNIQUE INDEX one_end_per_step_run ON event (execution_id, step_run_id)
    WHERE event_type IN ('step.done', 'step.failed');

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events are never changed';
END
$$;

CREATE FUNCTION refuse_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events are never deleted while their execution stands';
END
$$;

CREATE FUNCTION stands(execution text) RETURNS boolean LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (SELECT 1 FROM execution AS x WHERE x.execution_id = stands.execution)
$$;

CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- Retention removes whole finished executions: their row goes first, then their events (EVT-01).
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event FOR EACH ROW
    WHEN (stands(OLD.execution_id)) EXECUTE FUNCTION refuse_deletion();
REVOKE UPDATE, TRUNCATE ON event FROM PUBLIC, CURRENT_USER;  -- even its owner has to ask for them back

-- The outbox. `number` is the order in which orders were made.
CREATE TABLE orders (
    order_id     text COLLATE "C" NOT NULL,
    execution_id text COLLATE "C" NOT NULL,
    step_run_id  text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'leased', 'closed')),
    pool         text COLLATE "C" NOT NULL,
    priority     integer NOT NULL,
    lease_owner  text COLLATE "C",
    lease_epoch  integer NOT NULL,
    lease_until  double precision,
    number       bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (execution_id, order_id)
) WITH (fillfactor = 70);

CREATE INDEX open_orders ON orders (execution_id, number) WHERE state <> 'closed';
CREATE INDEX ready_orders ON orders (pool, priority DESC, number) WHERE state = 'ready';
CREATE INDEX leased_orders ON orders (order_id) WHERE state = 'leased';  -- not by time: renewing one moves no index

-- How a commit is refused: NOETL is the SQLSTATE that the program looks for.
CREATE FUNCTION conflict(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'NOETL', MESSAGE = what;
END
$$;
