"""Kubernetes: one Job of one pod, by the API server, from its manifest to its end.

The Job is found by its name, as containers are (`docker_engine`). Secrets among the variables are kept in a Secret that
the Job owns, so that they are in no manifest and are deleted with the Job.
"""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.container.container_task import INPUT, ContainerOutput, ContainerTask, EndedContainer
from noetl.tools.container.service_api import ServiceApi
from noetl.tools.contract import ToolContext

_CONTAINER = "task"
_KEPT_S = 3600  # how long Kubernetes keeps a finished Job that no worker removed
_LOOK_S = (0.2, 0.5, 1.0, 2.0)  # seconds between two requests for the pod; the last is repeated
_GRACE_S = 5
_PULL = {"missing": "IfNotPresent", "always": "Always", "never": "Never"}
# A pod in one of these states does not start until somebody changes something.
_IMAGE_PROBLEMS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_START_PROBLEMS = frozenset({"CreateContainerError", "RunContainerError", "CreateContainerConfigError"})
_PATIENCE = 30  # requests: the Secret of a pod is created after the Job, so a first refusal means little


class KubernetesJobs:
    def __init__(self, api: ServiceApi, context: ToolContext) -> None:
        self._api, self._context = api, context
        self.has_begun = False  # there is a Job of this task, or there may be one
        namespace = api.service.namespace
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._core = f"/api/v1/namespaces/{namespace}"

    async def check(self) -> str:
        """Whether Jobs of the namespace can be listed."""
        await self._api.answer("GET", self._jobs, limit=1)
        return f"listed Jobs of namespace {self._api.service.namespace} at {self._api.service}"

    async def run(self, task: ContainerTask, output: ContainerOutput) -> EndedContainer:
        """Run the Job to its end, or find it and follow it to its end."""
        _check(task)
        secrets = {name: value for name, value in task.env.items() if self._context.mask(value) != value}
        status, job = await self._api.call("GET", f"{self._jobs}/{task.name}", fine=(404,))
        self.has_begun = True
        if status == 404:
            status, job = await self._api.call("POST", self._jobs, job_manifest(task, frozenset(secrets)), fine=(409,))
            # Another attempt has created it between the two requests.
            if status == 409:
                job = await self._api.answer("GET", f"{self._jobs}/{task.name}")
        # Also for a Job that was found: the attempt that created it may have been lost before this request.
        if secrets:
            await self._api.call(
                "POST", f"{self._core}/secrets", secret_manifest(task, secrets, _uid(job, self._api)), fine=(409,)
            )
        pod = await self._wait_for_start(task)
        await self._read_log(pod, output)
        return await self._wait_for_end(task, pod)

    async def remove(self, name: str) -> None:
        """Delete the Job with its pod; the Secret belongs to the Job and is deleted with it."""
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": _GRACE_S}
        await self._api.call("DELETE", f"{self._jobs}/{name}", options, fine=(404,))

    async def _wait_for_start(self, task: ContainerTask) -> str:
        """The name of the pod, once its container has begun."""
        looks = 0
        while True:
            pod = await self._pod(task)
            if pod is not None:
                state = _state(pod)
                if "running" in state or "terminated" in state:
                    return str(pod["metadata"]["name"])
                self._check_waiting(task, state, pod, looks)
            elif looks and await self._is_failed(task):
                raise self._lost_pod_error("its Job ended without a pod")
            await asyncio.sleep(_LOOK_S[min(looks, len(_LOOK_S) - 1)])
            looks += 1

    def _check_waiting(self, task: ContainerTask, state: dict[str, Any], pod: dict[str, Any], looks: int) -> None:
        waiting = state.get("waiting") if isinstance(state.get("waiting"), dict) else {}
        assert isinstance(waiting, dict)
        reason, detail = str(waiting.get("reason") or ""), self._api.readable_text(str(waiting.get("message") or ""))
        if reason in _IMAGE_PROBLEMS:
            message = f'the image "{task.image}" could not be pulled: {detail or reason}'
            raise ToolError("container.image", message, retryable=True, code=reason)
        if reason in _START_PROBLEMS and looks > _PATIENCE:
            raise ToolError("container.error", f"the pod does not start: {detail or reason}", code=reason)
        if _phase(pod) in ("Failed", "Succeeded"):
            raise self._lost_pod_error(self._failure_reason(pod))

    async def _read_log(self, pod: str, output: ContainerOutput) -> None:
        """Kubernetes does not keep the two streams apart."""
        asked = {"container": _CONTAINER, "follow": "true"}
        async for part in self._api.stream("GET", f"{self._core}/pods/{pod}/log", **asked):
            output.take(part)

    async def _wait_for_end(self, task: ContainerTask, name: str) -> EndedContainer:
        """How the container ended. The API server may close the log earlier; then the rest of the log is not read."""
        looks = 0
        while True:
            pod = await self._pod(task)
            if pod is None or pod["metadata"]["name"] != name:
                raise self._lost_pod_error("its pod is gone")
            ended = _state(pod).get("terminated")
            if isinstance(ended, dict):
                code = ended.get("exitCode")
                if isinstance(code, bool) or not isinstance(code, int):
                    raise self._api.error("did not say how the container ended", code="state")
                return EndedContainer(exit_code=code, is_out_of_memory=ended.get("reason") == "OOMKilled")
            if _phase(pod) == "Failed":  # evicted, or its node was lost
                raise self._lost_pod_error(self._failure_reason(pod))
            await asyncio.sleep(_LOOK_S[min(looks, len(_LOOK_S) - 1)])
            looks += 1

    async def _pod(self, task: ContainerTask) -> dict[str, Any] | None:
        found = await self._api.answer("GET", f"{self._core}/pods", labelSelector=f"job-name={task.name}")
        pods = found.get("items")
        if not isinstance(pods, list) or not all(_is_pod(pod) for pod in pods):
            raise self._api.error("listed pods in a way that cannot be read")
        return pods[0] if pods else None

    async def _is_failed(self, task: ContainerTask) -> bool:
        status, job = await self._api.call("GET", f"{self._jobs}/{task.name}", fine=(404,))
        job_status = job.get("status") if isinstance(job, dict) else None
        conditions = job_status.get("conditions") if isinstance(job_status, dict) else None
        failed = [one for one in conditions or () if isinstance(one, dict) and one.get("type") == "Failed"]
        return status == 404 or any(one.get("status") == "True" for one in failed)

    def _failure_reason(self, pod: dict[str, Any]) -> str:
        status = pod.get("status") or {}
        reason = str(status.get("reason") or status.get("message") or "unknown")
        return f"its pod was lost: {self._api.readable_text(reason)}"

    def _lost_pod_error(self, why: str) -> ToolError:
        """A Job starts no second pod, so it is removed, and the next attempt creates a new one."""
        return ToolError("container.error", f"the container did not end: {why}", retryable=True, code="lost")


def _check(task: ContainerTask) -> None:
    if task.artifacts:
        raise ToolError(INPUT, "artifacts cannot be copied out of a pod: mount a claim, or let it write to a storage")
    if any(mount.source for mount in task.mounts):
        raise ToolError(INPUT, "volumes: a data folder is of this machine; name a claim of the cluster")
    if task.network not in (None, "host"):
        raise ToolError(INPUT, f'network "{task.network}" is not for a cluster to give: leave it out, or write host')
    if task.user is not None and not task.user.replace(":", "").isdecimal():
        raise ToolError(INPUT, f'user "{task.user}" must be a number on Kubernetes, such as 1000 or 1000:1000')


def _is_pod(pod: Any) -> bool:
    return isinstance(pod, dict) and isinstance(pod.get("metadata"), dict) and isinstance(pod.get("status", {}), dict)


def _phase(pod: dict[str, Any]) -> Any:
    return (pod.get("status") or {}).get("phase")


def _state(pod: dict[str, Any]) -> dict[str, Any]:
    """The state of the container: {waiting}, {running} or {terminated}; empty while it is not known."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        state = one.get("state") if isinstance(one, dict) else None
        if isinstance(state, dict):
            return state
    return {}


def _uid(job: Any, api: ServiceApi) -> str:
    try:
        return str(job["metadata"]["uid"])
    except (KeyError, TypeError):
        raise api.error("answered without the uid of the Job") from None


def secret_manifest(task: ContainerTask, values: dict[str, str], uid: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": task.name, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": task.name, "ownerReferences": [owner]},
        "type": "Opaque",
        "stringData": values,
    }


def job_manifest(task: ContainerTask, secrets: frozenset[str]) -> dict[str, Any]:
    """The manifest of a Job that runs once: the playbook decides about retries."""
    labels = {"app.kubernetes.io/managed-by": "noetl", **{name: _label(text) for name, text in task.labels.items()}}
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,  # the container gets no permissions of a service account
        "containers": [_container(task, secrets)],
        "volumes": [
            {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": mount.claim}}
            for number, mount in enumerate(task.mounts)
        ],
        "hostNetwork": task.network == "host" or None,
        "terminationGracePeriodSeconds": _GRACE_S,
    }
    # The task has its own time limit; this one is for a Job whose worker was lost and whose task no other worker
    # continues.
    deadline = None if task.timeout_s is None else int(task.timeout_s) + 300
    spec = {
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": _KEPT_S,
        "activeDeadlineSeconds": deadline,
        "template": {"metadata": {"labels": labels}, "spec": _without_empty_fields(pod)},
    }
    metadata = {"name": task.name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": _without_empty_fields(spec)}


def _container(task: ContainerTask, secrets: frozenset[str]) -> dict[str, Any]:
    limits = {
        "memory": None if task.memory_bytes is None else str(task.memory_bytes),
        "cpu": None if task.cpus is None else f"{int(task.cpus * 1000)}m",
    }
    user, _, group = (task.user or "").partition(":")
    security = {
        "allowPrivilegeEscalation": False,
        "runAsUser": int(user) if user else None,
        "runAsGroup": int(group) if group else None,
    }
    return _without_empty_fields(
        {
            "name": _CONTAINER,
            "image": task.image,
            "imagePullPolicy": _PULL[task.pull],
            "command": list(task.command),
            "args": list(task.args),
            "workingDir": task.cwd,
            "env": [_variable(task, name, value, secrets) for name, value in task.env.items()],
            "resources": {"limits": limits} if (limits := _without_empty_fields(limits)) else None,
            "securityContext": _without_empty_fields(security),
            "volumeMounts": [
                {"name": f"volume-{number}", "mountPath": mount.target, "readOnly": mount.read_only}
                for number, mount in enumerate(task.mounts)
            ],
        }
    )


def _variable(task: ContainerTask, name: str, value: str, secrets: frozenset[str]) -> dict[str, Any]:
    if name in secrets:
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": task.name, "key": name}}}
    return {"name": name, "value": value.replace("$(", "$$(")}  # "$(…)" would be another variable


def _label(text: str) -> str:
    """A text in the characters that a label may contain."""
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-" for sign in text)
    return kept[:63].strip("-_.")


def _without_empty_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The manifest without empty fields."""
    return {name: value for name, value in fields.items() if value is not None and value != []}
