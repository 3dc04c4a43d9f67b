-- What a list of executions says of one besides its state (store/row_summary.py), as JSON: iterations that were not run,
-- why it failed, open human tasks. It names the event it was told at, so what a program of the version before leaves
-- behind is not shown. Executions from before stay without: only their logs know; `noetl db rebuild` tells them anew.
ALTER TABLE execution ADD COLUMN summary TEXT;
