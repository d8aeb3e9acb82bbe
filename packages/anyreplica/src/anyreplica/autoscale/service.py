"""A service of the Swarm and its tasks, as Docker's API describes them, and the few requests to this API."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

_CHANGING = {
    "updating": "an update runs",
    "paused": "an update is paused; continue it or roll it back",
    "rollback_started": "a rollback runs",
    "rollback_paused": "a rollback is paused; deploy the service again",
}
_NANO = 1e9
_NO_ROOM = "no suitable node"
_DEFAULT_PORT = 8000
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+){1,20}")
_DEFAULT_CONCURRENCY = 10
_MOST_PORT = 65_535
_MOST_CONCURRENCY = 1_000_000
_MOST_WORKERS = 64
_LEAST_CORES = 0.01
_MOST_PROBLEM = 300
"""The log shows so many characters of a problem."""
_WRONG = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
"""What a description raises that lacks a field, or has a field of another type."""


class DescriptionError(ValueError):
    """Docker's description of a service or task is wrong. The text names it."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service.

    Attributes:
        version: the number of the service's last change. A change that names an older number is refused.
        replicas: the number of replicas that is set; None for a service without such a number.
        changing: why the service must not be changed now; empty: it may be changed.
        cores: the CPU limit of a replica in cores, at most one for each of its processes (`WORKERS`).
        port: the port of a replica.
        metrics_path: the path of a replica's metrics.
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
    metrics_path: str
    concurrency: int
    spec: dict[str, Any]

    @property
    def stack(self) -> str:
        """The name of the service's stack; for a service without a stack, its own name."""
        return self.labels.get("com.docker.stack.namespace", self.name)

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> "Service":
        """Return the service that an entry of `GET /services` describes.

        Raises:
            DescriptionError: a field is missing or has another type.
        """
        try:
            return cls._of(described)
        except _WRONG as error:
            raise DescriptionError(
                f"Docker's description of the service {_identity(described)} is wrong: {error!r}"
            ) from None

    @classmethod
    def _of(cls, described: Mapping[str, Any]) -> "Service":
        spec = described["Spec"]
        task = spec.get("TaskTemplate") or {}
        limits = (task.get("Resources") or {}).get("Limits") or {}
        lines = (task.get("ContainerSpec") or {}).get("Env") or []
        env = dict(line.partition("=")[::2] for line in lines)
        replicated = (spec.get("Mode") or {}).get("Replicated")
        state = (described.get("UpdateStatus") or {}).get("State", "")
        processes = _number(env.get("WORKERS"), 1, _MOST_WORKERS)
        return cls(
            identity=str(described["ID"]),
            name=str(spec["Name"]),
            version=int(described["Version"]["Index"]),
            labels={str(name): str(value) for name, value in (spec.get("Labels") or {}).items()},
            replicas=None if replicated is None else int(replicated.get("Replicas", 1)),
            changing=_CHANGING.get(state, ""),
            cores=min(processes, max(_LEAST_CORES, (limits.get("NanoCPUs") or processes * _NANO) / _NANO)),
            metrics_path=_path(env.get("METRICS_PATH")),
            port=_number(env.get("MCP_PORT"), _DEFAULT_PORT, _MOST_PORT),
            concurrency=_number(env.get("JOBS_CONCURRENCY"), _DEFAULT_CONCURRENCY, _MOST_CONCURRENCY),
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
    def of(cls, described: Mapping[str, Any]) -> "ReplicaTask":
        """Return the task that an entry of `GET /tasks` describes.

        Raises:
            DescriptionError: a field is missing or has another type.
        """
        try:
            return cls._of(described)
        except _WRONG as error:
            raise DescriptionError(
                f"Docker's description of the task {_identity(described)} is wrong: {error!r}"
            ) from None

    @classmethod
    def _of(cls, described: Mapping[str, Any]) -> "ReplicaTask":
        status = described.get("Status") or {}
        problem = status.get("Err") or ""
        attached = [each for each in described.get("NetworksAttachments") or [] if not _is_ingress(each)]
        return cls(
            identity=str(described["ID"]),
            runs=status.get("State") == "running",
            has_no_room=status.get("State") == "pending" and _NO_ROOM in problem,
            problem=" ".join(str(problem).split())[:_MOST_PROBLEM],
            addresses=tuple(address.partition("/")[0] for each in attached for address in each.get("Addresses") or []),
        )


def _is_ingress(attachment: Mapping[str, Any]) -> bool:
    """Return whether a network is that of the routing mesh, in which containers do not reach each other."""
    spec = (attachment.get("Network") or {}).get("Spec") or {}
    return bool(spec.get("Ingress")) or spec.get("Name") == "ingress"


def _identity(described: object) -> str:
    return repr(described.get("ID") if isinstance(described, Mapping) else described)[:100]


def _path(text: str | None) -> str:
    """Return a path that is safe in a URL, or the default one."""
    return text if text and _PATH.fullmatch(text) else "/metrics"


def _number(text: str | None, default: int, most: int) -> int:
    """Return the number of a variable. With a wrong value, the replica itself refuses to start."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return default
    return int(text) if 1 <= int(text) <= most else default


_SECONDS = 10.0
"""Time limit for an answer of the engine, in seconds."""
_MOST_BYTES = 32 * 1024 * 1024
"""Maximum size of an answer of the engine. A thousand services take about 4 MB."""
_OUT_OF_SEQUENCE = "out of sequence"


class DockerError(Exception):
    """Docker's API cannot be reached, or it refuses a request. The text says what and why."""


class Changed(Exception):  # it is no error: the next check reads the service again
    """Somebody else changed the service at the same moment, so nothing was changed here."""


class DockerApi:
    """Docker's API (https://docs.docker.com/reference/api/engine).

    Args:
        url: address of the engine, or of a proxy in front of it: `unix:///var/run/docker.sock`, `tcp://host:2375` or
            `http://host:2375`.

    Raises:
        ValueError: the URL has another form.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        if parts.scheme == "unix" and parts.path:
            transport, base = httpx2.AsyncHTTPTransport(uds=parts.path), "http://docker"
        elif parts.scheme in ("tcp", "http") and parts.hostname:
            transport, base = httpx2.AsyncHTTPTransport(), f"http://{parts.netloc}"
        else:
            raise ValueError(f"{url!r} is not unix:///path, tcp://host:port or http://host:port")
        headers = {"Accept-Encoding": "identity"}
        self._client = httpx2.AsyncClient(transport=transport, base_url=base, timeout=_SECONDS, headers=headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def services(self) -> tuple[list[Service], list[str]]:
        """Return all services, and for each description that is no service a sentence that says so.

        Raises:
            DockerError: the engine does not answer.
        """
        services, faults = [], []
        for each in await self._get("/services", {}):
            try:
                services.append(Service.of(each))
            except DescriptionError as error:
                faults.append(str(error))
        return services, faults

    async def tasks(self, service: Service) -> list[ReplicaTask]:
        """Return the tasks of a service whose desired state is running.

        Raises:
            DockerError: the engine does not answer.
            DescriptionError: the description of a task is wrong.
        """
        filters = json.dumps({"service": [service.identity], "desired-state": ["running"]})
        return [ReplicaTask.of(each) for each in await self._get("/tasks", {"filters": filters})]

    async def scale(self, service: Service, replicas: int) -> None:
        """Set the number of replicas of a service, if nobody has changed the service since it was read.

        Raises:
            Changed: somebody has changed it.
            DockerError: the engine refuses the change, or does not answer.
        """
        spec = {**service.spec, "Mode": {"Replicated": {"Replicas": replicas}}}
        path = f"/services/{service.identity}/update"
        try:
            reply = await self._client.post(path, params={"version": service.version}, json=spec)
        except httpx2.HTTPError as error:
            raise DockerError(f"{self.url} does not answer: {_text(error)}") from None
        if reply.status_code != httpx2.codes.OK:
            message = _message(reply.content)
            if _OUT_OF_SEQUENCE in message:
                raise Changed
            raise DockerError(f"{self.url} refused POST {path} with {reply.status_code}: {message}")

    async def _get(self, path: str, params: Mapping[str, str]) -> list[Any]:
        body = bytearray()
        try:
            async with asyncio.timeout(_SECONDS), self._client.stream("GET", path, params=params) as reply:
                async for part in reply.aiter_raw():
                    body += part
                    if len(body) > _MOST_BYTES:
                        raise DockerError(f"{self.url} answers GET {path} with more than {_MOST_BYTES} bytes")
        except TimeoutError:
            raise DockerError(f"{self.url} does not answer within {_SECONDS:g} s") from None
        except httpx2.HTTPError as error:
            raise DockerError(f"{self.url} does not answer: {_text(error)}") from None
        if reply.status_code != httpx2.codes.OK:
            raise DockerError(f"{self.url} refused GET {path} with {reply.status_code}: {_message(bytes(body))}")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DockerError(f"{self.url} answers GET {path} without JSON: {_text(error)}") from None
        if not isinstance(found, list):
            raise DockerError(f"{self.url} answers GET {path} without a list")
        return found


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _message(body: bytes) -> str:
    """Return the text of an error of Docker's API, on one line."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):  # the proxy answers with a page
        text = body.decode(errors="replace")
    return " ".join(text.split())[:300]
