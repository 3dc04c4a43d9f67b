"""Waits of step runs: what arms them, what ends them, and what people do with their tasks (TMR, MSG, HUM)."""
