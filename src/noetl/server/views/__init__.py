"""What the log says, in the shapes the API answers with. Read first: `executions.py`, `timeline.py`, `states.py`."""
