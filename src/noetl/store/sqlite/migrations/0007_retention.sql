-- Executions by their end: what is open, what ended of late, what is to be removed (RELIABILITY 3.6).
CREATE INDEX execution_by_end ON execution (finished_at);

-- Timers by their own id, so that whoever cancels one need not look through executions (TMR-04).
CREATE INDEX timer_by_id ON event (json_extract(payload, '$.wait_id')) WHERE event_type = 'timer.scheduled';
