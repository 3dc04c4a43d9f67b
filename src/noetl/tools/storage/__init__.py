"""`storage`: objects in S3, Google Cloud Storage, Azure Blob Storage and local folders, by URL.

Read first: `tool.py`, `operations.py`.
"""
