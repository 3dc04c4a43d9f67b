"""What a round of a cycle can change, and so whether a guard may one day say something else."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.language.proving.reads import ReadKeys, references, tells_time
from noetl.templates.authored import Authored

# Names that hold what the last call or step came to.
_RESULTS = frozenset({"outcome", "response", "result", "this", "error", "_prev", "page", "status_code"})
# Names that stay what they were for as long as an execution, or an iteration, lasts.
_STILL = frozenset({"workload", "execution_id", "keychain", "token"})


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """Keys set in the cycle, by namespace, and the names of its steps or tasks, whose results are new each round."""

    ctx: ReadKeys = ReadKeys()
    iteration: ReadKeys = ReadKeys()
    args: ReadKeys = ReadKeys()
    results: frozenset[str] = frozenset()
    workload: frozenset[str] = frozenset()

    def reason(self, guard: Authored | None) -> str | None:
        """Why the value of `guard` may change from round to round; None when nothing it reads does."""
        if tells_time(guard):
            return "depends on the time"
        reasons = (self._of(read.root, read.path) for read in references(guard))
        return next((reason for reason in reasons if reason), None)

    def first_reason(self, guards: Iterable[Authored | None]) -> str | None:
        return next((reason for reason in map(self.reason, guards) if reason), None)

    def _of(self, root: str, path: tuple[str | int, ...]) -> str | None:
        key = str(path[0]) if path else ""
        if root in _STILL:
            return None
        if root in _RESULTS or (root == "event" and key != "name") or root in self.results:
            return f"depends on results ({'.'.join(str(part) for part in (root, *path))})"
        if root in ("_attempt", "_retry"):
            return "attempts are counted"
        namespaces = {"ctx": self.ctx, "vars": self.ctx, "iter": self.iteration, "args": self.args}
        if root in namespaces:
            return self._changed(root, key, namespaces[root])
        if root == "event" or root in self.workload:
            return None
        for namespace, written in (("args", self.args), ("ctx", self.ctx)):  # bare names (TPL-06)
            if root in written:
                return self._changed(namespace, root, written)
        return None

    def _changed(self, namespace: str, key: str, written: ReadKeys) -> str | None:
        moves = key in written or (not key and bool(written.names))
        return f"{namespace}.{key} changes in the cycle" if moves else None
