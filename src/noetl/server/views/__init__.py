"""What the log says, in the shapes the API answers with. Read first: `timeline.py`, `states.py`, `projection.py`."""
