"""The worker: runs one order at a time per slot, and reports.

`Worker` (slots) → `Runner` (one order) → `PipelineRun` (tasks and policies) → `TaskRun` → tool. `Office` is all it
knows of a server: in the same process or over HTTP. `Post` sends reports durably and in order. Refuses to know: the
store. A worker has no database connection and no inbound port.

Read first: `service.py`, `pipeline_run.py`, `office.py`.
"""
