"""The Helm chart, rendered by Go's own text/template with Sprig, from a wheel: no registry in use has Helm itself.

The chart keeps to what is standard there (`template`, not `include`; no `lookup`, no `.Files`), so Helm renders the
same. A template that fails ends the process it is rendered in, so each has one of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "noetl"
RENDER = (
    "import json, pathlib, sys, go_template\n"
    "sys.stdout.buffer.write(go_template.render(pathlib.Path(sys.argv[1]), json.load(sys.stdin)))\n"
)
SECRETS = {
    "db": "postgresql://noetl:x@db/noetl",
    "master-key": "a2V5",
    "admin-token": "noetl_admin_x",
    "worker-token": "noetl_worker_x",
    "metrics-token": "noetl_metrics_x",
}
GIVEN: dict[str, Any] = {"results": "s3://bucket/noetl", "secret": {"values": SECRETS}}


class RenderError(Exception):
    pass


def rendered(folder: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Every object of the chart with its own values and these."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    context = {
        "Values": merged(yaml.safe_load((CHART / "values.yaml").read_text()), values),
        "Release": {"Name": "demo", "Namespace": "default", "Service": "Helm"},
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
    }
    objects: list[dict[str, Any]] = []
    for template in sorted((CHART / "templates").glob("*.yaml")):
        text = rendered_text(folder, template, context)
        objects += [one for one in yaml.safe_load_all(text) if one is not None]
    return objects


def rendered_text(folder: Path, template: Path, context: dict[str, Any]) -> str:
    # One namespace for all templates of a chart: definitions come with each.
    source = folder / template.name
    source.write_text((CHART / "templates" / "_helpers.tpl").read_text() + template.read_text())
    done = subprocess.run(
        [sys.executable, "-c", RENDER, str(source)],
        input=json.dumps(context),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise RenderError(done.stdout + done.stderr)
    assert "<no value>" not in done.stdout, f"{template.name} reads a value that values.yaml does not have"
    return done.stdout


def merged(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges: maps by key, everything else replaced."""
    both = dict(values)
    for name, value in more.items():
        old = both.get(name)
        both[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both
