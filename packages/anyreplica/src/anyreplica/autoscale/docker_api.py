"""The calls of Docker's API that the autoscaler needs: read services and tasks, and set a number of replicas."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

from anyreplica.autoscale.service import ReplicaTask, Service

_SECONDS = 10.0
"""Time limit for an answer of the engine, in seconds."""
_OUT_OF_SEQUENCE = "out of sequence"


class DockerError(Exception):
    """Docker's API cannot be reached, or it refuses a request. The text says what and why."""


class Changed(Exception):  # it is no error: the next look reads the service again
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
        self._client = httpx2.AsyncClient(transport=transport, base_url=base, timeout=_SECONDS)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def services(self) -> list[Service]:
        """Return all services.

        Raises:
            DockerError: the engine does not answer.
        """
        return [Service.of(each) for each in await self._get("/services", {})]

    async def tasks(self, service: Service) -> list[ReplicaTask]:
        """Return the tasks of a service whose desired state is running.

        Raises:
            DockerError: the engine does not answer.
        """
        filters = f'{{"service":["{service.identity}"],"desired-state":["running"]}}'
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
            said = _message(reply)
            if _OUT_OF_SEQUENCE in said:
                raise Changed
            raise DockerError(f"{self.url} refused POST {path} with {reply.status_code}: {said}")

    async def _get(self, path: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
        try:
            reply = await self._client.get(path, params=params)
            if reply.status_code == httpx2.codes.OK:
                found: list[dict[str, Any]] = reply.json()
                return found
        except (httpx2.HTTPError, ValueError) as error:
            raise DockerError(f"{self.url} does not answer: {_text(error)}") from None
        raise DockerError(f"{self.url} refused GET {path} with {reply.status_code}: {_message(reply)}")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _message(reply: httpx2.Response) -> str:
    """Return the text of an error of Docker's API, on one line."""
    try:
        text = str(reply.json()["message"])
    except (ValueError, KeyError, TypeError):  # the proxy answers with a page
        text = reply.text
    return " ".join(text.split())[:300]
