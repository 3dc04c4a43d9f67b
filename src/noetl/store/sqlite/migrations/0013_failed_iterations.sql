-- How many iterations of its loops failed, and of how many, so that a list of executions says so without reading logs.
-- `counted_seq` is the event they were counted at: a program of the version before moves an execution on and does not
-- count, and what it leaves behind is not shown. Executions from before stay without: only their logs know, and telling
-- all of them anew takes `noetl db rebuild`.
ALTER TABLE execution ADD COLUMN failed_iterations INTEGER;
ALTER TABLE execution ADD COLUMN iterations INTEGER;
ALTER TABLE execution ADD COLUMN counted_seq INTEGER;
