"""Proving: what can be known about a net before it runs.

In: a net. Out: a certificate with findings (deadlock, token left behind, cycle without an end), each with a witness:
a firing sequence that shows it. Linear checks come first, then equations over fork groups; all markings are searched
only where the order of tokens matters, within a budget. Refuses to know: data. A condition counts as possible unless
it contradicts another.

Read first: `certificate.py` (the entry point), `soundness.py` (the properties), `fates.py` (the equations).
"""
