"""Errands: pipelines that run beside the tokens, under orders of their own. Compensations, handlers of events, and
tasks that nobody waits for. Each is a step run without a token; the execution ends only when none is left."""
