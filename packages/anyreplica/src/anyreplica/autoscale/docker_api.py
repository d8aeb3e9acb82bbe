"""The calls of Docker's API that the autoscaler needs: read services and tasks, and set a number of replicas."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

from anyreplica.autoscale.service import DescriptionError, ReplicaTask, Service

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
            said = _message(reply.content)
            if _OUT_OF_SEQUENCE in said:
                raise Changed
            raise DockerError(f"{self.url} refused POST {path} with {reply.status_code}: {said}")

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
