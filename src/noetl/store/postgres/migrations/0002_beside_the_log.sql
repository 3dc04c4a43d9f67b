-- Credentials, sealed. The master key is never in this database (RELIABILITY 2.6).
CREATE TABLE credential (
    name        text COLLATE "C" PRIMARY KEY,
    type        text COLLATE "C" NOT NULL,
    version     integer NOT NULL,
    key_id      text COLLATE "C" NOT NULL,
    wrapped_key bytea NOT NULL,
    sealed      bytea NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    created_at  double precision NOT NULL,
    updated_at  double precision NOT NULL
);

-- Playbooks by path, in versions; what is registered stays as it was (SRV-10).
CREATE TABLE catalog (
    path          text COLLATE "C" NOT NULL,
    version       integer NOT NULL,
    net_hash      text COLLATE "C" NOT NULL REFERENCES net (net_hash),
    label         text COLLATE "C",
    source        text COLLATE "C",
    origin        text COLLATE "C",
    registered_at double precision NOT NULL,
    PRIMARY KEY (path, version)
);

CREATE INDEX catalog_by_net ON catalog (net_hash);

-- What another process asks of the one that drives an execution (SRV-07, SRV-11).
CREATE TABLE request (
    request_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    action       text COLLATE "C" NOT NULL,
    reason       text COLLATE "C",
    requested_at double precision NOT NULL,
    answer       text COLLATE "C",
    answered_at  double precision
);

CREATE INDEX pending_requests ON request (request_id) WHERE answer IS NULL;

-- Who waits for which message or signal; told by the log (MSG-01, MSG-05).
CREATE TABLE wait (
    wait_id      text COLLATE "C" NOT NULL,
    execution_id text COLLATE "C" NOT NULL,
    step_run_id  text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    correlation  text COLLATE "C" NOT NULL,
    opened_at    double precision NOT NULL,
    number       bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (execution_id, wait_id)
);

CREATE INDEX wait_by_name ON wait (kind, name, correlation);

-- Messages from when they were accepted; the id of one that was taken is remembered until its time is over (MSG-02).
CREATE TABLE message (
    message_id  text COLLATE "C" PRIMARY KEY,
    name        text COLLATE "C" NOT NULL,
    correlation text COLLATE "C" NOT NULL,
    payload     text COLLATE "C" NOT NULL,
    sent_at     double precision NOT NULL,
    expires_at  double precision NOT NULL,
    taken_by    text COLLATE "C",
    number      bigint GENERATED ALWAYS AS IDENTITY
);

CREATE INDEX message_kept ON message (name, sent_at, number) WHERE taken_by IS NULL;
CREATE INDEX message_by_age ON message (expires_at);

-- The work list of people; told by the log (HUM-01).
CREATE TABLE task (
    task_id      text COLLATE "C" PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    role         text COLLATE "C",
    assignee     text COLLATE "C",
    claimed_by   text COLLATE "C",
    created_at   double precision NOT NULL,
    body         text COLLATE "C" NOT NULL
);

CREATE INDEX task_by_age ON task (created_at DESC, task_id);
CREATE INDEX task_by_execution ON task (execution_id);
CREATE INDEX task_open ON task (role, assignee) WHERE state IN ('open', 'claimed');

-- Small things that belong to the installation: tokens, pools, workers, schedules, webhooks.
CREATE TABLE shelf (
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    integer NOT NULL,
    body       bytea NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE INDEX shelf_by_age ON shelf (kind, updated_at);
