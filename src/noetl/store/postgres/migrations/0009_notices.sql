-- What servers have to tell people and other programs about executions. Written with the events it tells of.
CREATE TABLE notice (
    notice_id    text COLLATE "C" PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    path         text COLLATE "C" NOT NULL,
    event        text COLLATE "C" NOT NULL,
    rule         text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    created_at   double precision NOT NULL,
    due_at       double precision NOT NULL,
    attempts     integer NOT NULL,
    fold_key     text COLLATE "C",
    throttle_s   double precision NOT NULL,
    folded       integer NOT NULL,
    error        text,
    ended_at     double precision,
    body         bytea NOT NULL
);
CREATE INDEX notice_due ON notice (due_at) WHERE state IN ('pending', 'sending');
CREATE INDEX notice_fold ON notice (fold_key, state) WHERE fold_key IS NOT NULL;
CREATE INDEX notice_age ON notice (created_at);
CREATE INDEX notice_execution ON notice (execution_id);
