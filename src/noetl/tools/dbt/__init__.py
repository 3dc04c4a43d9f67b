"""dbt projects, run in an interpreter that has dbt. Read first: `tool.py`; `runner.py` is what runs there."""
