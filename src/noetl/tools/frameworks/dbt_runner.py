"""The program that runs where dbt is installed: one invocation, then its results, node by node. It imports nothing of
NoETL.

It is started with the file for its answer, and a request as JSON on its standard input. dbt prints its log itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_FAILED = ("error", "fail", "runtime error", "partial success")
# Texts of drivers for a broken connection: dbt reports a failed node only as text.
_LOST = ("server closed the connection", "connection to server", "Connection refused", "Lost connection", "SSL SYSCALL")


def _run_dbt(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        from dbt.cli.main import dbtRunner
    except ImportError as problem:
        return {"error": {"kind": "missing", "message": f"this interpreter has no dbt: {problem}"}}
    target = folder / "target"
    arguments = [*request["arguments"], "--log-path", str(folder / "logs")]
    if request.get("profile") is not None:
        # JSON is YAML. The folder is for its owner only, and goes with the task.
        (folder / "profiles.yml").write_text(json.dumps({"noetl": request["profile"]}))
        arguments += ["--profiles-dir", str(folder), "--profile", "noetl"]
    if request.get("checks"):
        return _connection_check(dbtRunner, arguments, folder)
    done = dbtRunner().invoke([*arguments, "--target-path", str(target)])
    nodes = _nodes(target) if (target / "run_results.json").exists() else []
    failed = [node for node in nodes if node["status"] in _FAILED]
    if failed:
        first = failed[0]
        message = f"{first['unique_id']} ({first['status']}): {first['message']}"
        error = {"kind": "failed", "message": message, "code": first["status"], "nodes": nodes}
        return {"error": {**error, "retryable": any(sign in message for sign in _LOST)}}
    if done.exception is not None:
        return {"error": {"message": str(done.exception), "code": type(done.exception).__name__}}
    if not done.success:
        return {"error": {"message": "dbt did not succeed, and its log says why"}}
    return {"nodes": nodes}


def _connection_check(runner: Any, arguments: list[str], folder: Path) -> dict[str, Any]:
    """Whether `dbt debug` connects. It wants a project, so it gets one without models."""
    (folder / "dbt_project.yml").write_text("name: noetl_check\nprofile: noetl\n")
    messages: list[str] = []
    done = runner(callbacks=[lambda event: messages.append(event.info.msg)]).invoke(
        [*arguments, f"--project-dir={folder}"]
    )
    if done.success:
        return {"reached": True}
    # The database message follows ">", up to an empty line, in the last of dbt's messages that has one.
    reasons = [text.split("\n  >", 1)[1].split("\n\n")[0] for text in messages if "\n  >" in text]
    why = str(done.exception or (reasons or ["dbt could not connect, and its log says why"])[-1])
    return {"error": {"kind": "denied", "message": why, "code": "connection"}}


def _nodes(target: Path) -> list[dict[str, Any]]:
    """Each node that was run, with its parents and children of the manifest."""
    results = json.loads((target / "run_results.json").read_text())["results"]
    manifest = json.loads((target / "manifest.json").read_text())
    parents, children = manifest.get("parent_map", {}), manifest.get("child_map", {})
    return [_node(one, parents, children) for one in results]


def _node(one: dict[str, Any], parents: dict[str, Any], children: dict[str, Any]) -> dict[str, Any]:
    unique_id, response = one["unique_id"], one.get("adapter_response") or {}
    kind, _, rest = unique_id.partition(".")
    node = {
        "unique_id": unique_id,
        "name": rest.partition(".")[2] or rest,
        "type": kind,
        "status": one["status"],
        "message": one.get("message"),
        "duration_s": round(one.get("execution_time") or 0.0, 3),
        "rows": response.get("rows_affected"),
        "failures": one.get("failures"),
        "relation": one.get("relation_name"),
        "parents": parents.get(unique_id, []),
        "children": children.get(unique_id, []),
    }
    return {name: value for name, value in node.items() if value is not None}


def main() -> None:
    file, request = Path(sys.argv[1]), json.load(sys.stdin)
    answer = _run_dbt(request, file.parent)
    file.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
