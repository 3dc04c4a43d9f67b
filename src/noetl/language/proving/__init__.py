"""Proving: what can be known about a net before it runs.

In: a net. Out: a certificate with findings (deadlock, token left behind, cycle without an end), each with a witness:
a firing sequence that shows it. Small nets are searched exhaustively, large ones are solved as equations.
Refuses to know: data. Conditions are taken as possible unless they contradict each other.

Read first: `certificate.py` (the entry point), `soundness.py` (the properties), `token_outcomes.py` (the equations).
"""
