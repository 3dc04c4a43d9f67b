"""`mcp`: calls tools of Model Context Protocol servers. Read first: `tool.py`."""
