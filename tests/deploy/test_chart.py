"""The Helm chart: rendered, valid by the schemas of Kubernetes, with flags and variables that NoETL has."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.deploy.chart import GIVEN, RenderError, rendered
from tests.deploy.commands import parsed_command, refuse_unknown_variables

pytest.importorskip("go_template", reason="make test installs requirements-deploy.lock")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test installs requirements-deploy.lock")

EVERYTHING: dict[str, Any] = {
    **GIVEN,
    "nats": "nats://nats:4222",
    "image": {"pullSecrets": [{"name": "registry"}], "tag": "1.2.3"},
    "server": {
        "settings": {"retention_days": 30, "strict": True},
        "trustedProxies": ["10.0.0.0/8", "192.168.0.0/16"],
        "extraEnv": [{"name": "AWS_REGION", "value": "eu-1"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "servers", "operator": "Exists"}],
    },
    "ingress": {"className": "nginx", "annotations": {"a.example/b": "c"}},
    "workers": {
        "default": {"autoscaling": {"enabled": True}},
        "gpu": {
            "replicas": 1,
            "concurrency": 2,
            "settings": {"allow": "shell", "sandbox": True},
            "labels": {"gpu": "yes"},
            "extraEnv": [],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "drainTimeout": 600,
            "autoscaling": {"enabled": False},
            "podDisruptionBudget": {"maxUnavailable": 1},
            "nodeSelector": {"gpu": "yes"},
            "tolerations": [],
            "affinity": {},
        },
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}
SETTINGS = {"defaults": GIVEN, "everything": EVERYTHING}
NOT_OF_KUBERNETES = {"ServiceMonitor"}  # a resource of the Prometheus operator


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["spec"]["template"]["spec"] for one in objects if one["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_every_object_is_valid_kubernetes(values: dict[str, Any], version: str, tmp_path: Path) -> None:
    objects = rendered(tmp_path, values)

    assert {one["kind"] for one in objects} >= {"Deployment", "Service", "Job", "Secret", "PodDisruptionBudget"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in objects:
            if one["kind"] not in NOT_OF_KUBERNETES:
                kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS)
def test_every_command_and_variable_of_a_pod_exists_in_noetl(values: dict[str, Any], tmp_path: Path) -> None:
    for pod in pods(rendered(tmp_path, values)):
        for container in pod["containers"]:
            refuse_unknown_variables(one["name"] for one in container["env"])
            if "command" not in container:
                parsed_command(container["args"])
                continue
            for line in container["args"][0].splitlines():
                parsed_command(shlex.split(line)[1:])


def test_no_pod_runs_as_root_or_writes_outside_its_volumes(tmp_path: Path) -> None:
    for pod in pods(rendered(tmp_path, EVERYTHING)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "/var/lib/noetl" in {mount["mountPath"] for mount in container["volumeMounts"]}
            volumes = {volume["name"] for volume in pod["volumes"]}
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_every_pool_has_its_own_workers_and_the_token_covers_all_pools(tmp_path: Path) -> None:
    objects = rendered(tmp_path, EVERYTHING)

    workers = {name: one for name, one in named(objects, "Deployment").items() if "worker" in name}
    assert list(workers) == ["demo-worker-default", "demo-worker-gpu"]
    gpu = workers["demo-worker-gpu"]["spec"]
    assert gpu["replicas"] == 1
    assert gpu["template"]["spec"]["terminationGracePeriodSeconds"] == 615
    assert "--label=gpu=yes" in gpu["template"]["spec"]["containers"][0]["args"]
    setup = named(objects, "Job")["demo-setup"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
    assert "--role worker --pool default --pool gpu " in setup


def test_a_pool_is_scaled_by_its_own_orders_and_has_no_fixed_replica_count(tmp_path: Path) -> None:
    objects = rendered(tmp_path, EVERYTHING)

    (scaler,) = named(objects, "HorizontalPodAutoscaler").values()
    assert scaler["spec"]["scaleTargetRef"]["name"] == "demo-worker-default"
    (metric,) = scaler["spec"]["metrics"]
    assert metric["external"]["metric"] == {
        "name": "noetl_pool_orders",
        "selector": {"matchLabels": {"pool": "default"}},
    }
    assert "replicas" not in named(objects, "Deployment")["demo-worker-default"]["spec"]


def test_secrets_come_from_the_secret_only(tmp_path: Path) -> None:
    own = rendered(tmp_path, GIVEN)
    others = rendered(tmp_path, {**GIVEN, "secret": {"existing": "mine"}})

    assert named(own, "Secret")["demo-secrets"]["stringData"] == GIVEN["secret"]["values"]
    assert "noetl_admin_x" not in yaml.safe_dump([one for one in own if one["kind"] != "Secret"])
    assert named(others, "Secret") == {}
    assert "demo-secrets" not in yaml.safe_dump(others)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"secret": GIVEN["secret"]}, "set results"),
        ({"results": "s3://b", "secret": {"values": {"db": "postgresql://db"}}}, "set secret.values.master-key"),
    ],
)
def test_a_value_that_only_the_operator_knows_is_required(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=said):
        rendered(tmp_path, values)


def test_the_settings_of_the_chart_become_variables_of_the_server(tmp_path: Path) -> None:
    server = named(rendered(tmp_path, EVERYTHING), "Deployment")["demo-server"]["spec"]["template"]["spec"]
    variables = {one["name"]: one.get("value") for one in server["containers"][0]["env"]}

    assert variables["NOETL_RETENTION_DAYS"] == "30"
    assert variables["NOETL_TRUSTED_PROXIES"] == "10.0.0.0/8,192.168.0.0/16"
    assert variables["NOETL_ALLOWED_HOSTS"] == "noetl.example.org,demo-server"
    assert variables["NOETL_NATS"] == "nats://nats:4222"


def test_selectors_match_the_pods_they_are_for(tmp_path: Path) -> None:
    objects = rendered(tmp_path, EVERYTHING)
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in objects if one["kind"] in ("Deployment", "Job")]
    budgets = [one["spec"]["selector"]["matchLabels"] for one in objects if one["kind"] == "PodDisruptionBudget"]
    services = [one["spec"]["selector"] for one in objects if one["kind"] == "Service"]
    policies = [one["spec"]["podSelector"]["matchLabels"] for one in objects if one["kind"] == "NetworkPolicy"]

    for selector in (*budgets, *services, *policies):
        assert [one for one in labels if selector.items() <= one.items()], selector
    assert len(budgets) == 3


def test_the_service_monitor_reads_the_metrics_with_a_token(tmp_path: Path) -> None:
    (monitor,) = named(rendered(tmp_path, EVERYTHING), "ServiceMonitor").values()
    (endpoint,) = monitor["spec"]["endpoints"]

    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "demo-secrets", "key": "metrics-token"}


def test_an_unknown_flag_is_detected() -> None:
    with pytest.raises(click.UsageError):
        parsed_command(["server", "start", "--no-such-flag"])
    with pytest.raises(AssertionError):
        refuse_unknown_variables(["NOETL_NO_SUCH"])
