"""`redis` and `mqtt`: messages and keys of brokers."""
