"""`email`: sends a message by SMTP."""
