"""The Docker Engine API, of which lists are read and nothing else: one client, `GET` only, answers bounded.

What is read here is all that goes any further. Environment, labels, secrets, mounts and commands of services come
with the engine's answer, and are left in it.
"""

import asyncio
import logging
import os
from datetime import datetime
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import httpx2
from fastmcp.exceptions import ToolError
from mcp_swarm.settings.errors import StartupError
from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_pascal
from pydantic_core import to_json

logger = logging.getLogger(__name__)

T = TypeVar("T")

_VERSION = "/v1.44"
"""Engines from 25.0 on speak it; it is the oldest that 29.0 still takes."""
_SECONDS = 10.0
_MOST_BYTES = 8 * 1024 * 1024


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal)


class Container(_Part):
    """What a service's tasks run."""

    image: str = ""


class Template(_Part):
    """What a service's tasks are made from; a plugin's have no container."""

    container_spec: Container | None = None


class Spec(_Part):
    """What a service should be."""

    name: str
    task_template: Template


class Update(_Part):
    """How a service's last update goes."""

    state: str = ""
    message: str = ""


class Counts(_Part):
    """A service's tasks, counted by the engine."""

    running_tasks: int = 0
    desired_tasks: int = 0


class Service(_Part):
    """A service (`Service` in Docker's reference of the Engine API)."""

    id: str = Field(alias="ID")
    updated_at: datetime
    spec: Spec
    update_status: Update | None = None
    service_status: Counts = Counts()


class Status(_Part):
    """What became of a task."""

    timestamp: datetime
    state: str
    message: str = ""
    err: str = ""


class Task(_Part):
    """A task (`Task` in Docker's reference of the Engine API)."""

    status: Status
    desired_state: str


_SERVICES: TypeAdapter[list[Service]] = TypeAdapter(Annotated[list[Service], FailFast()])
_TASKS: TypeAdapter[list[Task]] = TypeAdapter(Annotated[list[Task], FailFast()])


class Docker:
    """An engine that manages a Swarm, or a proxy before it.

    Args:
        host: `unix:///path/of/socket` or `tcp://host:port`, as Docker's own `DOCKER_HOST`.

    Raises:
        StartupError: it is neither.
    """

    def __init__(self, host: str) -> None:
        socket, url = _place(host)
        self._client = httpx2.AsyncClient(
            base_url=f"{url}{_VERSION}",
            # One of our own, so that no proxy of the environment's is asked.
            transport=httpx2.AsyncHTTPTransport(uds=socket),
            # Not compressed, so that what comes is as large as it will be.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            follow_redirects=False,
            timeout=None,  # `_SECONDS` are for the whole call
        )

    async def services(self, name: str = "") -> list[Service]:
        """All services, or those whose names begin so.

        Raises:
            ToolError: the engine doesn't tell.
        """
        return await self._get("/services", _SERVICES, status="true", filters=_only("name", name))

    async def tasks(self, service: str) -> list[Task]:
        """A service's tasks, those that ended lately too.

        Args:
            service: its id.

        Raises:
            ToolError: the engine doesn't tell.
        """
        return await self._get("/tasks", _TASKS, filters=_only("service", service))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _get(self, path: str, shape: TypeAdapter[T], **query: str) -> T:
        try:
            async with asyncio.timeout(_SECONDS), self._client.stream("GET", path, params=query) as response:
                status, body = response.status_code, await _read(response)
        except TimeoutError:
            raise ToolError(f"Docker did not answer within {_SECONDS:g} s") from None
        except httpx2.HTTPError as error:
            logger.warning("Docker can't be reached: %s: %s", type(error).__name__, error)
            raise ToolError("Docker can't be reached, or its answer broke off") from None
        if status != 200:
            logger.warning("Docker answered %d: %.300r", status, body)
            raise ToolError(_refusal(status))
        try:
            return shape.validate_json(body)
        except ValidationError as error:
            (first, *_) = error.errors(include_input=False, include_context=False, include_url=False)
            logger.warning("Docker's answer has another shape: %s", first)
            raise ToolError("Docker answered with something that is none of its lists") from None


def docker_host() -> str:
    """`DOCKER_HOST`, or where Docker listens on a machine where nobody said otherwise."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _place(host: str) -> tuple[str | None, str]:
    """The path of a socket, if it is one, and the URL of what is asked there."""
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
    raise StartupError("DOCKER_HOST: unix:///path/of/socket or tcp://host:port, without user, path and query")


def _only(what: str, value: str) -> str:
    return to_json({what: [value]} if value else {}).decode()


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > _MOST_BYTES:
            raise ToolError(f"Docker's answer is larger than {_MOST_BYTES} bytes")
    return bytes(body)


def _refusal(status: int) -> str:
    if status == 503:
        return "the engine that DOCKER_HOST names manages no Swarm"
    return f"Docker answered {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
