"""Group commit: commands in, one transaction per batch out, then effects.

`group_commit.py` queues and retries, `batch.py` gathers what one transaction stores, `loaded_executions.py` keeps
executions in memory as far as the log has them, `snapshots.py` keeps an older state to replay from, `quarantine.py`
isolates executions whose processing keeps failing, `effects.py` does what is owed once a batch is stored.

Read first: `group_commit.py`, `decisions.py`.
"""
