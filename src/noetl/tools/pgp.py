"""`pgp`: encrypts files for the keys of others, and decrypts files with a key of one's own.

The work is done by a child process, which has the private key only for its call and ends when the task is cancelled.
The target appears complete or not at all: a manipulated message never leaves a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import OwningTool, ToolContext, ToolResult
from noetl.tools.files import FileEnd, TaskFolder, brief_errors, end_of
from noetl.tools.input_shapes import connection_fields, whole_number
from noetl.tools.kinds.files import PGP_OPS

if find_spec("pysequoia") is None:  # the child imports it; fail here, before a child starts
    raise ImportError("pysequoia is not installed")

INPUT = "pgp.input"
MAX_BYTES = 10 << 30
_PROGRAM = Program(module="noetl.tools.pgp_child", name="pgp", error="pgp.error")


class PgpTool(OwningTool):
    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)
        super().__init__(self._children)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        with brief_errors(context), TaskFolder("pgp", context) as place:
            source = end_of(inputs.get("source"), None, kind="pgp", name="source")
            target = end_of(inputs.get("target"), None, kind="pgp", name="target")
            request = _request(inputs, source, context)
            new = place.begin(target)
            request |= {"source": str(await place.fetched(source)), "target": str(new.part)}
            answer = await self._children.call(context.task_run.execution_id, request)
            await place.finish(new, if_absent=inputs.get("if_absent") is True)
            return ToolResult(result={"url": target.written, **answer["result"]})

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the passphrase of a credential opens its private key. A password can be tried on a file only."""
        fields = connection_fields(inputs.get("auth"), context, kind="pgp", address="private_key")
        if not fields.get("private_key"):
            raise ToolError(INPUT, "the credential has no private_key, and only that can be tried without a file")
        own = {name: str(fields[name]) for name in ("private_key", "passphrase") if fields.get(name)}
        request = {"op": "check", "source": "", "target": "", "name": "", "max_bytes": MAX_BYTES, **own}
        answer = await self._children.call(context.task_run.execution_id, request)
        return f"the private key {answer['result']['keys']} can be used"


def _request(inputs: Mapping[str, Any], source: FileEnd, context: ToolContext) -> dict[str, Any]:
    op, auth = str(inputs.get("op") or ""), inputs.get("auth")
    if op not in PGP_OPS:
        raise ToolError(INPUT, f'op "{op}" is not known: write {", ".join(PGP_OPS)}')
    fields = connection_fields(auth, context, kind="pgp", address="private_key") if auth is not None else {}
    own = {name: str(fields[name]) for name in ("private_key", "passphrase", "password") if fields.get(name)}
    keys = {name: _texts(inputs.get(name)) for name in ("recipients", "signers")}
    if op == "encrypt" and not keys["recipients"] and "password" not in own:
        raise ToolError(
            INPUT, 'encrypt needs "recipients", the public keys of those who may read it, or a password in auth'
        )
    if op == "decrypt" and not {"private_key", "password"} & own.keys():
        raise ToolError(
            INPUT, 'decrypt needs "auth": {private_key, passphrase} or {password}, best as a stored credential'
        )
    return {
        "op": op,
        "name": source.written,
        "armor": inputs.get("armor") is True,
        "max_bytes": whole_number(context.spec.get("max_bytes"), "spec.max_bytes", MAX_BYTES, error=INPUT),
        **keys,
        **own,
    }


def _texts(written: Any) -> list[str]:
    texts = written if isinstance(written, list) else [] if written is None else [written]
    return [str(text) for text in texts]
