"""Three replicas of the FastMCP server in `served`, and its clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import ROOT, Server
from tests.replicas import Fleet, RedisServer, running

SERVED = Path(__file__).parent.relative_to(ROOT) / "served"


def command(server: str) -> tuple[str, ...]:
    """Return the arguments of Python that run one replica of a server in `served`, or of one with an absolute path."""
    return ("-m", "anyreplica", "run", str(SERVED / server))


@contextmanager
def replicas(folder: Path, server: str, **settings: str) -> Iterator[Fleet]:
    """Run three replicas of a server, with full sessions and a Redis."""
    with RedisServer(folder / "redis.log") as redis:
        settings |= {"REDIS_URL": redis.url, "JOBS_URL": redis.url, "HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": ""}
        with running(folder, 3, command=command(server), **settings) as found:
            yield found


@pytest.fixture(scope="session")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas with full sessions that share a Redis, and an upstream server for the proxy."""
    folder = tmp_path_factory.mktemp("fastmcp-server")
    with (
        Server(folder / "upstream.log", command=command("upstream.py")) as upstream,
        replicas(folder, "server.py:mcp", UPSTREAM_URL=f"{upstream.url}/mcp") as found,
    ):
        yield found
