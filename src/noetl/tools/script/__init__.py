"""`script`: a program text in the language it names. Read first: `tool.py`."""
