"""dlt pipelines, run in an interpreter that has dlt. Read first: `tool.py`; `runner.py` is what runs there."""
