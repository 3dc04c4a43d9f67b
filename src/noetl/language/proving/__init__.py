"""Proving: properties of a net that are known before it runs.

In: a net. Out: a certificate with findings (deadlock, token left behind, cycle without an end), each with a witness:
a firing sequence that shows it. Equations over groups of tokens decide most nets; where the order of tokens matters,
all markings are searched, within a budget.
Refuses to know: data. Conditions are taken as possible unless they contradict each other.

Read first: `certificate.py` (the entry point), `soundness.py` (the properties), `token_outcomes.py` (the equations).
"""
