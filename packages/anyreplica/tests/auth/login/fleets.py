"""Replicas with a login behind a round-robin proxy, with an identity provider and a Redis."""

import contextlib
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from conftest import Server, free_port
from tests.auth.issuer import Issuer
from tests.auth.login.identity_provider import identity_provider
from tests.downstream.exchange.served import Reply, served
from tests.replicas import KEYS, Fleet, RedisServer, RoundRobin

COMMAND = ("-m", "tests.auth.login.server")
COMPONENTS = "server,tests.packs.scoped"


@dataclass
class LoginFleet(Fleet):
    """Replicas with a login, and what surrounds them."""

    redis: RedisServer
    issuer: Issuer
    """The issuer of identity assertions."""
    documents: Path
    """The folder of CIMD documents."""
    settings: dict[str, str]
    folder: Path
    ports: list[int]
    """The ports of the replicas. The proxy passes requests to those that were not killed."""

    def start(self, number: int, **changes: str) -> Server:
        """Start a replica in the place of an earlier one. The caller waits until it is ready."""
        named = {"REPLICA_NAME": f"replica-{number}", **self.settings, **changes}
        port = self.ports[number - 1]
        server = Server(self.folder / f"replica-{number}.log", command=COMMAND, MCP_PORT=str(port), **named)
        self.replicas[number - 1 : number] = [server]
        return server

    def kill(self, number: int) -> None:
        """Kill a replica. The proxy sends it no more requests."""
        self.replicas[number - 1].stop(signal.SIGKILL)
        self.proxy.ports = [port for port in self.proxy.ports if port != self.ports[number - 1]]

    def restart(self, number: int, **changes: str) -> None:
        """Start a replica again with other settings, and wait until it is ready."""
        self.replicas[number - 1].stop()
        self.start(number, **changes).wait_ready()
        self.proxy.ports = list(self.ports)


@contextlib.contextmanager
def logins(
    folder: Path, count: int = 3, access_seconds: int = 300, *, tokens: str = "jwt", jobs: bool = False, **settings: str
) -> Iterator[LoginFleet]:
    """Run replicas with a login. With `jobs`, they share a queue that no worker serves.

    `access_seconds` and `tokens` are those of `identity_provider`.
    """
    proxy = RoundRobin([free_port() for _ in range(count)])
    replicas: list[Server] = []
    documents = folder / "documents"
    documents.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(proxy.close)
        redis = stack.enter_context(RedisServer(folder / "redis.log"))
        issuer = stack.enter_context(Issuer().serving())
        idp = stack.enter_context(identity_provider(folder / "idp.log", proxy.url, access_seconds, tokens))
        common = {
            "MCP_REPLICAS": str(count),
            "REQUEST_STATE_KEYS": KEYS,
            "REDIS_URL": redis.url,
            "PUBLIC_URL": proxy.url,
            "MCP_COMPONENTS": COMPONENTS,
            "LOGIN_CACHE_SECONDS": "0",
            "LOGIN_RATE_LIMIT": "100000/s",
            "IDP": idp,
            "JWKS": issuer.url,
            "DOCUMENTS": f"http://{stack.enter_context(served(_Documents(documents)))}",
            **({"JOBS_URL": redis.url} if jobs else {}),
            **{name: idp if value == "IDP" else value for name, value in settings.items()},
        }
        fleet = LoginFleet(replicas, proxy, redis, issuer, documents, common, folder, list(proxy.ports))
        stack.callback(lambda: [replica.stop() for replica in replicas])
        for number in range(1, count + 1):
            fleet.start(number)
        for replica in replicas:
            replica.wait_ready()
        yield fleet


@dataclass
class _Documents:
    folder: Path

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:  # noqa: ARG002
        """Answer with the file of a name."""
        return Reply(body=(self.folder / path.strip("/")).read_bytes(), headers={"Content-Type": "application/json"})
