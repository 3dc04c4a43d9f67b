"""The worker: runs one order at a time per slot, and reports.

`Worker` (slots) → `run_order` (one order) → `PipelineRun` (tasks and policies) → `attempt` → tool. An `OrderContext`
goes with the order, a `TaskContext` with one task run. `ControlPlane` is its only view of a server: in the same process
or over HTTP. `WorkerHandle` (slots.py) is what it shares with a control plane in the same process: its id, its leases,
the orders it runs. `ReportQueue` sends reports in order, each again unchanged until a server has answered.
Refuses to know: the store. A worker has no database connection and no inbound port.

`v2_case_run.py` runs steps of the v2-case dialect. `leases.py` knows the leases that are held and renews them (the
heartbeat); `order_context.py` asks whether one is still held before a task begins.

Read first: `worker.py`, `pipeline_run.py`, `control_plane.py`.
"""
