"""`nats`: messages, key-value buckets and object buckets of a NATS server. Read first: `tool.py`."""
