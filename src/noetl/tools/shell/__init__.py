"""Programs of this machine, run in a session of their own and killed as a group (DESIGN §7, RELIABILITY 2.2)."""
