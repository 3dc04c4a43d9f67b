"""`redis`, `mqtt` and `kafka`: messages and keys of brokers, through their drivers in a child process.

Read first: `tool.py`, `child.py`, then one broker: `redis_keys.py`, `mqtt_messages.py`, `kafka_records.py`.
"""
