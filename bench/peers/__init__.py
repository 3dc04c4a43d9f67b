"""Peers: the same workloads on Restate and DBOS, each in an environment of its own, run in turn with ours.

In: what to compare and how often. Out: rows with medians and ratios. The scripts of the peers (`dbos_peer`,
`restate_peer`, `restate_app`) run in the peer's environment and know nothing of NoETL; `environments` makes those
environments on first use. Read first: `comparison.py`, `environments.py`, `workloads.py`.
"""
