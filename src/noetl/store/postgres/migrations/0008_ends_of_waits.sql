-- A worker ends a step run once. The server may still fail one whose pipeline is done, in its waits (TMR-05, MSG-04).
CREATE UNIQUE INDEX one_reported_end_per_step_run ON event (execution_id, step_run_id)
    WHERE event_type IN ('step.done', 'step.failed') AND NOT on_behalf;
CREATE UNIQUE INDEX one_end_of_a_kind_on_behalf ON event (execution_id, step_run_id, event_type)
    WHERE event_type IN ('step.done', 'step.failed') AND on_behalf;
DROP INDEX one_end_per_step_run;
