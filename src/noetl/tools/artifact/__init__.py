"""`artifact`: values put into the results store, and got back by their reference. Read first: `tool.py`,
`references.py`."""
