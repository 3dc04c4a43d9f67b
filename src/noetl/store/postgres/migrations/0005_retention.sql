-- Executions by their end: what is to be removed (RELIABILITY 3.6).
CREATE INDEX execution_by_end ON execution (net_hash, finished_at) WHERE finished_at IS NOT NULL;

-- Timers by their own id, so that whoever cancels one need not look through executions (TMR-04).
CREATE INDEX timer_by_id ON event (substring(payload FROM '"wait_id":"([^"]*)"'))
    WHERE event_type = 'timer.scheduled';

-- Which executions have moved, by the transaction that moved them, for servers that show them live. A transaction gets
-- its number before it commits, so whoever reads goes on from the oldest that was still under way. Nothing depends on
-- it: it is not in the WAL, a crash empties it, and old rows are removed.
CREATE UNLOGGED TABLE moved (
    xid          bigint NOT NULL,
    execution_id text COLLATE "C" NOT NULL
);

CREATE INDEX moved_by_xid ON moved (xid);
