"""REST catalogues of Iceberg: the place of a table, and the credential that a catalogue vends for its files.

Reading a table takes three requests, through the `http` tool and under its rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.base.secret_forms import SHORTEST
from noetl.tools.contract import ToolContext
from noetl.tools.input_shapes import UNRESOLVED

_LEVELS = "\x1f"  # between the levels of a namespace in a URL
# Vended credential fields, by the names of Iceberg and of the credentials of `storage`.
_VENDED = {
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "client.region": "region",
    "gcs.oauth2.token": "bearer_token",
    "gcs.service.host": "endpoint",
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
}
VENDED_SECRETS = ("access_key_id", "secret_access_key", "session_token", "bearer_token", "account_key", "sas_token")
_SAS = "adls.sas-token."


class RestTable(msgspec.Struct, frozen=True):
    """A table of a catalogue: its metadata file, and the fields of a credential for its files."""

    metadata: str
    vended: dict[str, str]


class RestCatalog:
    """A catalogue as a task sees it. `fields` are those of a credential of the type `iceberg_rest`."""

    def __init__(self, fields: Mapping[str, Any], context: ToolContext) -> None:
        self._fields, self._context = fields, context
        self._url = str(fields["url"]).rstrip("/")
        self._token = str(fields.get("token") or "")
        self._prefix = ""

    async def table(self, namespace: str, name: str) -> RestTable:
        await self._connect()
        levels = quote(_LEVELS.join(namespace.split(".")), safe="")
        try:
            answer = await self._get(f"{self._prefix}/namespaces/{levels}/tables/{quote(name, safe='')}", vends=True)
        except ToolError as problem:
            if problem.details.get("status") != 404:
                raise
            raise ToolError("lake.input", f'the catalogue has no table "{namespace}.{name}"') from None
        metadata = answer.get("metadata-location")
        if not isinstance(metadata, str):
            raise self._invalid_answer("a table without a metadata-location")
        return RestTable(metadata, _vended_credential(answer, metadata))

    async def check(self) -> str:
        await self._connect()
        found = (await self._get(f"{self._prefix}/namespaces")).get("namespaces")
        if not isinstance(found, list):
            raise self._invalid_answer("no list of namespaces")
        return f"opened the catalogue: {len(found)} namespaces"

    async def _connect(self) -> None:
        """Get a token if the credential has none, and the prefix of all other requests."""
        if not self._token and self._fields.get("client_id"):
            self._token = await self._fetched_token()
        warehouse = self._fields.get("warehouse")
        asked = f"?{urlencode({'warehouse': str(warehouse)})}" if warehouse else ""
        config = await self._get(f"/config{asked}")
        known = {**_mapping(config.get("defaults")), **_mapping(config.get("overrides"))}
        prefix = str(known.get("prefix") or "").strip("/")
        self._prefix = f"/{quote(prefix, safe='/')}" if prefix else ""

    async def _fetched_token(self) -> str:
        url = str(self._fields.get("token_url") or f"{self._url}/v1/oauth/tokens")
        form = {
            "grant_type": "client_credentials",
            "client_id": str(self._fields["client_id"]),
            "client_secret": str(self._fields.get("client_secret") or ""),
            "scope": str(self._fields.get("scope") or "catalog"),
        }
        answer = await self._send_request({"method": "POST", "url": url, "form": form})
        if not isinstance(token := answer.get("access_token"), str) or not token:
            raise self._invalid_answer("no access_token")
        return token

    async def _get(self, path: str, *, vends: bool = False) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if vends:
            headers["X-Iceberg-Access-Delegation"] = "vended-credentials"
        return await self._send_request({"method": "GET", "url": f"{self._url}/v1{path}", "headers": headers})

    async def _send_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._context.tool is None:
            raise ToolError("lake.input", "there are no other tools here")
        secrets = [str(self._fields[name]) for name in ("client_secret", "token") if self._fields.get(name)]
        secrets += [self._token] if self._token else []
        # The token is in no stored credential, so the worker does not know it.
        mask = self._context.mask
        masked = msgspec.structs.replace(self._context, spec={}, mask=lambda text: without_secrets(secrets, mask(text)))
        try:
            answer = (await self._context.tool("http").run(request, masked)).result["data"]
        except ToolError as problem:
            raise self._failure(problem, secrets) from None
        if not isinstance(answer, dict):
            raise self._invalid_answer("something that is no JSON object")
        return answer

    def _failure(self, problem: ToolError, secrets: list[str]) -> ToolError:
        """The error, with the message of the catalogue if it sent one."""
        status, data = problem.details.get("status"), problem.details.get("data")
        if status is None:
            code = problem.details.get("code")
            return ToolError(
                "lake.error", without_secrets(secrets, problem.message), retryable=problem.retryable, code=code
            )
        written = _mapping(_mapping(data).get("error")).get("message") or _mapping(data).get("error_description") or ""
        message = without_secrets(secrets, self._context.mask(str(written)))[:300]
        message = "".join(char if char.isprintable() else " " for char in message)
        kind = "lake.denied" if status in (401, 403) else "lake.error"
        text = f"the catalogue at {self._host} answered {status}" + (f": {message}" if message else "")
        return ToolError(kind, text, retryable=problem.retryable, status=status, code=str(status))

    def _invalid_answer(self, what: str) -> ToolError:
        return ToolError("lake.error", f"the catalogue at {self._host} answered with {what}", retryable=True)

    @property
    def _host(self) -> str:
        return urlsplit(self._url).hostname or "no host"


def rest_catalog(fields: Mapping[str, Any], context: ToolContext) -> RestCatalog | None:
    """The catalogue of a credential; None if the credential names none. Raises ToolError `keychain.unresolved` if it is
    wrong."""
    url = fields.get("url") or fields.get("uri")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    parts = urlsplit(url)
    if parts.username or parts.query:
        raise ToolError(UNRESOLVED, 'the "url" of a catalogue holds no login and no query: use "token" or "client_id"')
    return RestCatalog({**fields, "url": url}, context)


def _vended_credential(answer: Mapping[str, Any], metadata: str) -> dict[str, str]:
    """The fields of a credential for the files of a table. The vended credential with the longest matching prefix wins
    over shorter ones, and over the general configuration."""
    listed = answer.get("storage-credentials")
    fitting = [_mapping(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    fitting = [one for one in fitting if metadata.startswith(str(one.get("prefix") or ""))]
    fitting.sort(key=lambda one: len(str(one.get("prefix") or "")))
    config = _mapping(answer.get("config"))
    for one in fitting:
        config = {**config, **_mapping(one.get("config"))}
    fields = {ours: str(config[name]) for name, ours in _VENDED.items() if config.get(name)}
    for name in config:
        if name.startswith(_SAS):
            fields |= {"sas_token": str(config[name]), "account_name": name.removeprefix(_SAS).partition(".")[0]}
    return fields


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def without_secrets(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        if len(secret) >= SHORTEST:
            text = text.replace(secret, "***")
    return text
