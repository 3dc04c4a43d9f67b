-- How many iterations of its loops failed, and of how many, so that a list of executions says so without reading logs.
-- `counted_seq` is the event they were counted at: a program of the version before moves an execution on and does not
-- count, and what it leaves behind is not shown. Executions from before stay without: only their logs know, and telling
-- all of them anew takes `noetl db rebuild`.
ALTER TABLE execution ADD COLUMN failed_iterations bigint, ADD COLUMN iterations bigint, ADD COLUMN counted_seq bigint;

-- A type of its own, since that program goes on sending rows of the other (see 0007).
CREATE TYPE counted_execution_row AS (
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
    failed_iterations   bigint,
    iterations          bigint,
    after               bigint
);
