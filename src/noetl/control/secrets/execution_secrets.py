"""Secrets that executions have read: recorded before a worker receives them, masked in all reports (KEY-06).

An execution, its parents and its children are a family and share one mask, since results travel between them. The
record is in the store and read by every server: a secret that one worker has received may be in the report of any
other. Values are encrypted under the master key; without one, how the secret is looked up is recorded instead
(docs/decisions/0008).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import NoetlError, ToolError
from noetl.base.redaction import Mask
from noetl.control.commit.loaded_executions import LoadedExecutions
from noetl.control.commit.sharing import NEAR_BYTES, SharingPolicy
from noetl.control.secrets.release import SecretRelease
from noetl.engine.pipeline.secret_grants import naming_of
from noetl.events.orders import PlaybookCall, Report, Turn
from noetl.events.secret_materials import Material, SealedCredential, masked, secrets_in
from noetl.net.net import KeychainEntry, Net, tasks_of
from noetl.store.contract import Store
from noetl.store.installation import each_key_value
from noetl.tools.registry import CALL_NOTHING, credential_inputs

KIND = "execution_secret"  # of the records on the key-value table; their names begin with the root execution
_READS = ("reads secrets",)  # the key in the memo of a plan
_MOST_FAMILIES = 1_000  # in memory
_MOST_ROOTS = 10_000
_MANY = 100  # deleted executions, from which on all records are scanned instead of those of each execution
_MOST_RECORDS = 1_000  # of one family: each distinct secret is one

_log = logging.getLogger(__name__)


class ReadSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One secret that a worker has received. Stored as JSON on the key-value table; exactly one of the two is set."""

    # Its texts, encrypted under the master key.
    sealed: SealedCredential | None = None
    # Without a master key: how the secret is looked up again. Never the value.
    entry: KeychainEntry | None = None


class Family(msgspec.Struct, eq=False):
    """The secrets of a root execution and its descendants, as far as this process knows them."""

    mask: Mask
    records: set[str]  # names on the key-value table that `mask` has learned
    given: set[frozenset[str]]  # the texts of each secret that was recorded by this process
    is_loaded: bool = False


class ExecutionSecrets:
    def __init__(
        self,
        store: Store,
        secret_release: SecretRelease,
        clock: Clock,
        executions: LoadedExecutions,
        policy: SharingPolicy,
    ) -> None:
        self._store, self._secret_release, self._clock = store, secret_release, clock
        self._executions, self._policy = executions, policy
        self._families: OrderedDict[str, Family] = OrderedDict()
        # The root of every execution that was asked for: it never changes, so the walk to it is made once.
        self._roots: OrderedDict[str, str] = OrderedDict()

    async def mask(self, execution_id: str) -> Mask:
        """Everything that the family of this execution has read so far."""
        root = self._roots.get(execution_id)
        if root is None:
            root = await self._root(execution_id)
        family = self._family(root)
        # On a server the loaded records are not enough: another server may have released a secret since.
        if family.is_loaded and self._policy.has_secrets_in_memory:
            return family.mask
        if self._may_have_read(execution_id):
            await self._load(root, family)
        else:
            family.is_loaded = True  # none of its tasks reads a secret, and it has no children that could
        return family.mask

    async def record(self, execution_id: str, entry: KeychainEntry, material: Material) -> None:
        """Record that the execution has read this secret; returns once that is durable. It is masked from here on."""
        root = await self._root(execution_id)
        family = self._family(root)
        texts = frozenset(secrets_in(material))
        if texts in family.given:
            return
        # Before the record is written: a report that comes back meanwhile must be masked already.
        family.mask.learn(texts)
        keychain = self._secret_release.keychain()
        sealed = keychain.sealed_texts(root, sorted(texts)) if keychain is not None else None
        read = ReadSecret(sealed=sealed) if sealed is not None else ReadSecret(entry=entry)
        name = f"{root}/{_digest(read)}"
        if name not in family.records:
            await self._store.key_values.put(KIND, name, msgspec.json.encode(read), over=0, at=self._clock.now())
        family.records.add(name)
        family.given.add(texts)

    async def masked_turn(self, turn: Turn) -> Turn:
        """The turn with every secret masked that the executions of its reports have read, on this or another worker."""
        if not turn.reports:
            return turn
        changed: dict[int, Report] = {}
        for at, report in enumerate(turn.reports):
            redactor = (await self.mask(report.execution_id)).redactor
            if redactor.idle:
                continue
            # A large report in a thread, a part of it may have to be walked; others are served between small ones.
            if len(msgspec.json.encode(report)) > NEAR_BYTES:
                clean = await asyncio.to_thread(masked, report, redactor)
            else:
                clean = masked(report, redactor)
                await asyncio.sleep(0)
            if clean is not report:
                changed[at] = clean
        if not changed:
            return turn
        reports = tuple(changed.get(at, report) for at, report in enumerate(turn.reports))
        return msgspec.structs.replace(turn, reports=reports)

    async def check_call(self, call: PlaybookCall) -> None:
        """Raise ToolError if a child would be started with a secret in its payload, which is recorded."""
        redactor = (await self.mask(call.execution_id)).redactor
        asked = [call.path, call.version, call.payload]
        if redactor.data(asked) is not asked:
            raise ToolError(
                "playbook.failed",
                "args hold a secret, and the arguments of a nested playbook are recorded: "
                "name the secret in the keychain of that playbook, or look it up there with a secrets task",
                child_status="refused",
            )

    def _family(self, root: str) -> Family:
        family = self._families.get(root)
        if family is not None:
            self._families.move_to_end(root)
            return family
        family = self._families[root] = Family(Mask(), set(), set())
        if len(self._families) > _MOST_FAMILIES:
            self._families.popitem(last=False)  # it is read again from the records when needed
        return family

    async def _root(self, execution_id: str) -> str:
        """The top-level execution that this one descends from."""
        if execution_id not in self._roots:
            self._roots[execution_id] = await self._find_root(execution_id)
            if len(self._roots) > _MOST_ROOTS:
                self._roots.popitem(last=False)
        return self._roots[execution_id]

    async def _find_root(self, execution_id: str) -> str:
        root = execution_id
        while (parent := await self._parent(root)) is not None:
            root = parent
        return root

    async def _parent(self, execution_id: str) -> str | None:
        # Not for an execution that is just beginning: its parent in memory is not stored yet.
        if execution_id in self._executions and self._executions[execution_id].committed:
            return self._executions[execution_id].execution.origin.parent_execution_id
        row = await self._store.execution(execution_id)
        return row.parent_execution_id if row is not None else None

    def _may_have_read(self, execution_id: str) -> bool:
        """False if it is certain, without a query, that its family reads no secret."""
        loaded = self._executions.get(execution_id)
        # A child shares the mask of its parent, which may have read what the child's own net does not name.
        if loaded is None or loaded.execution.origin.parent_execution_id is not None:
            return True
        memo = loaded.plan.memo
        found: bool | None = memo.get(_READS)
        if found is None:
            found = memo[_READS] = _may_read(loaded.plan.net)
        return found

    async def _load(self, root: str, family: Family) -> None:
        for thing in await self._store.key_values.list(KIND, prefix=f"{root}/", limit=_MOST_RECORDS):
            if thing.name in family.records:
                continue
            read = msgspec.json.decode(thing.body, type=ReadSecret)
            try:
                family.mask.learn(await self._texts(root, read))
            # The report must not fail over it. The credential was deleted or cannot be decrypted any more, and then
            # nothing can be compared with it.
            except NoetlError as problem:
                _log.warning("a secret that execution %s has read cannot be masked any more: %s", root, problem)
            family.records.add(thing.name)
        family.is_loaded = True

    async def _texts(self, root: str, read: ReadSecret) -> Iterable[str]:
        keychain = self._secret_release.keychain()
        if keychain is None:
            return ()
        if read.sealed is not None:
            return keychain.opened_texts(root, read.sealed)
        assert read.entry is not None, "a record has one of the two"
        return secrets_in(await keychain.looked_up((), read.entry))


async def forget_secrets(store: Store, execution_ids: Collection[str]) -> None:
    """Remove what was recorded for executions that are no longer kept."""
    # A week of executions may be a million, most without a secret: looking through all records is then far less.
    prefixes = [""] if len(execution_ids) > _MANY else [f"{one}/" for one in execution_ids]
    gone = frozenset(execution_ids)
    for prefix in prefixes:
        async for thing in each_key_value(store.key_values, KIND, prefix=prefix):
            if thing.name.partition("/")[0] in gone:
                await store.key_values.delete(KIND, thing.name)


def _digest(read: ReadSecret) -> str:
    """Equal for the same secret of one execution, so that it is recorded once."""
    if read.sealed is not None:
        return f"{read.sealed.key_id}-{read.sealed.fingerprint}"
    return hashlib.sha256(msgspec.json.encode(read.entry, order="deterministic")).hexdigest()[:32]


def _may_read(net: Net) -> bool:
    """Whether a task of this net, or a child that it starts, may read a secret. For plug-ins this is unknown."""
    if net.keychain:
        return True
    for step in net.transitions:
        naming = naming_of(step, net, credential_inputs)
        if naming.places or naming.lookups or any(task.kind not in CALL_NOTHING for task in tasks_of(step)):
            return True
    return False
