"""Claiming: ready orders, which worker may take which, leases, pools, poison orders.

A claim is a command like any other and is committed. `local_control_plane.py` is what workers see of all this.

Read first: `claims.py`, `ready_orders.py`, `turns.py`.
"""
