"""A net's steps by name, so that nothing searches the list of them for every order.

Kept for the nets used last: building it costs as much as one search, and a worker meets the same few again and again.
"""

from __future__ import annotations

from collections import OrderedDict

from noetl.net.net import Net, Transition
from noetl.net.secret_reads import Reads

_KEPT = 64
_recent: OrderedDict[int, NetIndex] = OrderedDict()


class NetIndex:
    def __init__(self, net: Net) -> None:
        self.net = net
        self.steps: dict[str, Transition] = {step.name: step for step in net.transitions}
        self.names = frozenset(self.steps)
        self.keychain_reads: dict[int, Reads] = {}  # by the id of a task, which lives as long as the net


def index_of(net: Net) -> NetIndex:
    """The index of exactly this net (told apart by identity: comparing two nets would cost more than an index)."""
    found = _recent.get(id(net))
    if found is None or found.net is not net:
        found = _recent[id(net)] = NetIndex(net)
        if len(_recent) > _KEPT:
            _recent.popitem(last=False)
    return found
