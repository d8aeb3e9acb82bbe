"""Three replicas of the FastMCP server in `served`, and its clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, Server
from tests.replicas import Fleet, RedisServer, running

SERVED = Path(__file__).parent.relative_to(ROOT) / "served"


def command(server: str) -> tuple[str, ...]:
    """Return the arguments of Python that run one replica of a server in `served`."""
    return ("-m", "mcp_swarm", "run", str(SERVED / server))


@pytest.fixture(scope="session")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas with full sessions that share a Redis, and an upstream server for the proxy."""
    folder = tmp_path_factory.mktemp("fastmcp-server")
    upstream = Server(folder / "upstream.log", command=command("upstream.py"))
    try:
        upstream.wait_ready()
        with (
            RedisServer(folder / "redis.log") as redis,
            running(
                folder,
                command=command("server.py:mcp"),
                MCP_COMPONENTS="",
                REDIS_URL=redis.url,
                JOBS_URL=redis.url,
                HANDSHAKE_SESSIONS="full",
                UPSTREAM_URL=f"{upstream.url}/mcp",
            ) as found,
        ):
            yield found
    finally:
        upstream.stop()
