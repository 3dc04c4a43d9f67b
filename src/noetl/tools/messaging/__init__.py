"""`redis`, `mqtt` and `kafka`: messages and keys of brokers."""
