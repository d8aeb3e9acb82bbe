"""A service of the Swarm and its tasks, as Docker's API describes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CHANGING = {
    "updating": "an update runs",
    "paused": "an update is paused; continue it or roll it back",
    "rollback_started": "a rollback runs",
    "rollback_paused": "a rollback is paused; deploy the service again",
}
_NANO = 1e9
_NO_ROOM = "no suitable node"
_DEFAULT_PORT = 8000
_DEFAULT_CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class Service:
    """A service.

    Attributes:
        version: the number of the service's last change. A change that names an older number is refused.
        replicas: the number of replicas that is set; None for a service without such a number.
        changing: why the service must not be changed now; empty: it may be changed.
        cores: the CPU limit of a replica in cores, at most 1, because a replica is one process on one core.
        port: the port of a replica for `/metrics`.
        concurrency: number of jobs that a worker of this service runs at the same time.
        spec: the whole description, which a change must contain.
    """

    identity: str
    name: str
    version: int
    labels: Mapping[str, str]
    replicas: int | None
    changing: str
    cores: float
    port: int
    concurrency: int
    spec: dict[str, Any]

    @property
    def stack(self) -> str:
        """The name of the service's stack; for a service without a stack, its own name."""
        return self.labels.get("com.docker.stack.namespace", self.name)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Service":
        """Return the service that an entry of `GET /services` describes."""
        spec = said["Spec"]
        task = spec.get("TaskTemplate") or {}
        limits = (task.get("Resources") or {}).get("Limits") or {}
        lines = (task.get("ContainerSpec") or {}).get("Env") or []
        env = dict(line.partition("=")[::2] for line in lines)
        replicated = (spec.get("Mode") or {}).get("Replicated")
        state = (said.get("UpdateStatus") or {}).get("State", "")
        return cls(
            identity=said["ID"],
            name=spec["Name"],
            version=said["Version"]["Index"],
            labels=spec.get("Labels") or {},
            replicas=None if replicated is None else replicated.get("Replicas", 1),
            changing=_CHANGING.get(state, ""),
            cores=min(1.0, (limits.get("NanoCPUs") or _NANO) / _NANO),
            port=_number(env.get("MCP_PORT"), _DEFAULT_PORT),
            concurrency=_number(env.get("JOBS_CONCURRENCY"), _DEFAULT_CONCURRENCY),
            spec=spec,
        )


@dataclass(frozen=True, slots=True)
class ReplicaTask:
    """A task of a service: one replica.

    Attributes:
        runs: whether the container runs and is healthy.
        has_no_room: whether no node has room for the replica.
        problem: what Swarm says about a task that does not run.
        addresses: the IP addresses at which other containers reach it.
    """

    identity: str
    runs: bool
    has_no_room: bool
    problem: str
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "ReplicaTask":
        """Return the task that an entry of `GET /tasks` describes."""
        status = said.get("Status") or {}
        problem = status.get("Err") or ""
        attached = [each for each in said.get("NetworksAttachments") or [] if not _is_ingress(each)]
        return cls(
            identity=said["ID"],
            runs=status.get("State") == "running",
            has_no_room=status.get("State") == "pending" and _NO_ROOM in problem,
            problem=problem,
            addresses=tuple(address.partition("/")[0] for each in attached for address in each.get("Addresses") or []),
        )


def _is_ingress(attachment: Mapping[str, Any]) -> bool:
    """Return whether a network is that of the routing mesh, in which containers do not reach each other."""
    spec = (attachment.get("Network") or {}).get("Spec") or {}
    return bool(spec.get("Ingress")) or spec.get("Name") == "ingress"


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and int(text) > 0 else default
