-- What a list of executions says of one besides its state (store/row_summary.py), as JSON: iterations that were not run,
-- why it failed, open human tasks. It names the event it was told at, so what a program of the version before leaves
-- behind is not shown. Executions from before stay without: only their logs know; `noetl db rebuild` tells them anew.
ALTER TABLE execution ADD COLUMN summary text;

-- A type of its own, since that program goes on sending rows of the other (see 0007).
CREATE TYPE summed_execution_row AS (
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
    summary             text,
    after               bigint
);
