-- Rows as the program sends them, many in one value: to take apart an array of rows costs client and server about half
-- of what an array per column does. Types of their own, since those of the tables change with every column that is
-- added, and a program that does not know it yet goes on writing (RELIABILITY 3.8).
CREATE TYPE execution_row AS (
    execution_id        text COLLATE "C",
    trace_id            text COLLATE "C",
    path                text COLLATE "C",
    name                text COLLATE "C",
    net_hash            text COLLATE "C",
    status              text COLLATE "C",
    last_seq            bigint,
    created_at          double precision,
    finished_at         double precision,
    parent_execution_id text COLLATE "C",
    wake_at             double precision,
    after               bigint
);

CREATE TYPE event_row AS (
    execution_id text COLLATE "C",
    seq          bigint,
    event_id     text COLLATE "C",
    event_type   text COLLATE "C",
    ts           double precision,
    source       text COLLATE "C",
    parent_id    text COLLATE "C",
    step         text COLLATE "C",
    step_run_id  text COLLATE "C",
    task_run_id  text COLLATE "C",
    on_behalf    boolean,
    schema       integer,
    payload      text COLLATE "C",
    checksum     bigint
);

CREATE TYPE order_row AS (
    order_id     text COLLATE "C",
    execution_id text COLLATE "C",
    step_run_id  text COLLATE "C",
    state        text COLLATE "C",
    pool         text COLLATE "C",
    priority     integer,
    lease_owner  text COLLATE "C",
    lease_epoch  integer,
    lease_until  double precision
);
