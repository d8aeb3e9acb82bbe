"""A client of the Docker Engine API that only reads lists: it sends only `GET` and limits the size of replies.

The client returns only the fields that are declared here. The engine's reply also contains the environment, labels,
secrets, mounts and commands of services; the client ignores them.
"""

import asyncio
import logging
import os
from datetime import datetime
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import httpx2
from anyreplica.settings.errors import StartupError
from fastmcp.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_pascal
from pydantic_core import to_json

logger = logging.getLogger(__name__)

T = TypeVar("T")

_VERSION = "/v1.44"
"""API version. Engine 25.0 is the first with this version, and engine 29.0 accepts no older version."""
_SECONDS = 10.0
_MOST_BYTES = 8 * 1024 * 1024


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal)


class Container(_Part):
    """The container that a task runs."""

    image: str = ""


class Template(_Part):
    """The template of a service's tasks; tasks of a plugin have no container."""

    container_spec: Container | None = None


class Spec(_Part):
    """The specification of a service."""

    name: str
    task_template: Template


class Update(_Part):
    """The state of a service's last update."""

    state: str = ""
    message: str = ""


class Counts(_Part):
    """The engine's counts of a service's tasks."""

    running_tasks: int = 0
    desired_tasks: int = 0


class Service(_Part):
    """A service (`Service` in the reference of the Docker Engine API)."""

    id: str = Field(alias="ID")
    updated_at: datetime
    spec: Spec
    update_status: Update | None = None
    service_status: Counts = Counts()


class Status(_Part):
    """The state of a task."""

    timestamp: datetime
    state: str
    message: str = ""
    err: str = ""


class Task(_Part):
    """A task (`Task` in the reference of the Docker Engine API)."""

    status: Status
    desired_state: str


_SERVICES: TypeAdapter[list[Service]] = TypeAdapter(Annotated[list[Service], FailFast()])
_TASKS: TypeAdapter[list[Task]] = TypeAdapter(Annotated[list[Task], FailFast()])


class Docker:
    """A client of an engine that manages a Swarm, or of a proxy in front of it.

    Args:
        host: `unix:///path/of/socket` or `tcp://host:port`, like Docker's `DOCKER_HOST`.
        limit_seconds: Time limit for a request with its reply, in seconds.

    Raises:
        StartupError: The host has another form.
    """

    def __init__(self, host: str, *, limit_seconds: float = _SECONDS) -> None:
        socket, url = _place(host)
        self._limit_seconds = limit_seconds
        self._client = httpx2.AsyncClient(
            base_url=f"{url}{_VERSION}",
            # An explicit transport ignores the proxy settings in the environment.
            transport=httpx2.AsyncHTTPTransport(uds=socket),
            # No compression: the size limit counts the received bytes.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            follow_redirects=False,
            timeout=None,  # `limit_seconds` limits the whole call.
        )

    async def services(self, name: str = "") -> list[Service]:
        """Return all services, or the services with names that begin with `name`.

        Raises:
            ToolError: The engine does not answer, or its reply is not usable.
        """
        return await self._get("/services", _SERVICES, status="true", filters=_only("name", name))

    async def tasks(self, service: str) -> list[Task]:
        """Return the tasks of a service, including recently ended tasks.

        Args:
            service: Id of the service.

        Raises:
            ToolError: The engine does not answer, or its reply is not usable.
        """
        return await self._get("/tasks", _TASKS, filters=_only("service", service))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _get(self, path: str, shape: TypeAdapter[T], **query: str) -> T:
        try:
            async with asyncio.timeout(self._limit_seconds), self._client.stream("GET", path, params=query) as response:
                status, body = response.status_code, await _read(response)
        except TimeoutError:
            raise ToolError(f"Docker did not answer within {self._limit_seconds:g} s; retry later.") from None
        except httpx2.HTTPError as error:
            logger.warning("Can't reach Docker (DOCKER_HOST): %s: %s", type(error).__name__, error)
            raise ToolError("Docker can't be reached, or its reply was incomplete; retry later.") from None
        if status != 200:
            logger.warning("Docker answered HTTP %d: %.300r", status, body)
            raise ToolError(_refusal(status))
        try:
            return shape.validate_json(body)
        except ValidationError as error:
            (first, *_) = error.errors(include_input=False, include_context=False, include_url=False)
            logger.warning("Docker's reply has an unexpected form: %s", first)
            raise ToolError("Docker's reply is not a list in the expected form.") from None


def docker_host() -> str:
    """Return `DOCKER_HOST`, or Docker's default socket if the variable is unset."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _place(host: str) -> tuple[str | None, str]:
    """Return the path of the socket (None for tcp) and the base URL."""
    try:
        parts = urlsplit(host)
        port = 2375 if parts.port is None else parts.port
    except ValueError:
        parts, port = urlsplit(""), 0
    if host.isprintable() and not parts.query and not parts.fragment:
        if parts.scheme == "unix" and not parts.netloc and len(parts.path) > 1:
            return parts.path, "http://docker"
        if parts.scheme == "tcp" and parts.hostname and port and "@" not in parts.netloc and parts.path in ("", "/"):
            name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return None, f"http://{name}:{port}"
    raise StartupError("DOCKER_HOST: must be unix:///path/of/socket or tcp://host:port, without user, path and query")


def _only(what: str, value: str) -> str:
    return to_json({what: [value]} if value else {}).decode()


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > _MOST_BYTES:
            raise ToolError(f"Docker's reply is too large: the limit is {_MOST_BYTES} bytes.")
    return bytes(body)


def _refusal(status: int) -> str:
    if status == 503:
        return "The Docker engine at DOCKER_HOST is not a manager of a Swarm."
    return f"Docker answered HTTP {status} {httpx2.codes.get_reason_phrase(status)}".rstrip() + "."
