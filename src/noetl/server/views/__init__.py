"""Views of the log, in the shapes of the API. Read first: `timeline.py`, `states.py`, `projection.py`."""
