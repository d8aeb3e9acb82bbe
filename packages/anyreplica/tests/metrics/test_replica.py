"""Tests of the metrics of a replica's state."""

import signal
import socket

import pytest

from conftest import StartServer, until
from tests.calls import legacy
from tests.metrics.page import Scrape
from tests.replicas import KEYS, RedisServer


def test_the_replicas_name_and_versions(start_server: StartServer) -> None:
    """The metrics contain the replica's name and versions."""
    server = start_server(REPLICA_NAME="one")
    (info,) = [sample for sample in Scrape(server.url).samples if sample.name == "mcp_replica_info"]
    assert (info.value, info.labels["replica"]) == (1, "one")
    assert info.labels.keys() == {"replica", "version", "python", "fastmcp"}


def test_connections_and_their_requests(start_server: StartServer) -> None:
    """The metrics count open connections, opened connections and the requests per connection.

    Each scrape uses a connection of its own, which ends with the scrape.
    """
    server = start_server(MAX_REQUESTS_PER_CONNECTION="0")
    before = Scrape(server.url)
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
    until(
        lambda: Scrape(server.url).value("mcp_connections") == 4,
        "the metrics count four connections, one of them for the scrape",
    )
    for connection in idle:
        connection.close()
    until(
        lambda: Scrape(server.url).value("mcp_connections") == 1, "the metrics count only the connection of the scrape"
    )
    after = Scrape(server.url)
    opened = after.value("mcp_connections_opened_total") - before.value("mcp_connections_opened_total")
    ended = after.value("mcp_connection_requests_count") - before.value("mcp_connection_requests_count")
    carried = after.value("mcp_connection_requests_sum") - before.value("mcp_connection_requests_sum")
    assert opened == ended
    assert carried == ended - 3


def test_a_blocked_event_loop(start_server: StartServer) -> None:
    """The metrics show the delay of an event loop that a tool blocks."""
    server = start_server(MCP_COMPONENTS="server,tests.packs.hostile", LOOP_STALL_SECONDS="0")

    def late() -> float:
        found = Scrape(server.url)
        name = "mcp_event_loop_lag_seconds_bucket"
        return found.value(name, le="+Inf") - found.value(name, le="0.25")

    until(
        lambda: Scrape(server.url).value("mcp_event_loop_lag_seconds_count") > 2,
        "the replica has measured its event loop three times",
    )
    assert late() == 0
    legacy(server.url, "tools/call", {"name": "blocks_the_loop", "arguments": {"seconds": 1}})
    until(lambda: late() >= 1, "a measurement shows a delay of more than 0.25 s")


def test_a_drain(start_server: StartServer) -> None:
    """The metrics show that a replica drains."""
    server = start_server(DRAIN_SECONDS="20")
    assert Scrape(server.url).value("mcp_replica_draining") == 0
    server.process.send_signal(signal.SIGTERM)
    until(lambda: Scrape(server.url).value("mcp_replica_draining") == 1, "mcp_replica_draining is 1")


@pytest.mark.needs("redis")
def test_rates_without_redis(start_server: StartServer, redis_server: RedisServer) -> None:
    """The metrics show that a replica limits rates without the other replicas, until Redis is back."""
    settings = {"REDIS_URL": redis_server.url, "RATE_LIMIT": "1000/s", "MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": KEYS}
    server = start_server(**settings)
    found = Scrape(server.url)
    assert (found.value("mcp_rates_alone"), found.value("mcp_rates_outages_total")) == (0, 0)
    redis_server.kill()
    assert legacy(server.url, "tools/list").status_code == 200
    found = Scrape(server.url)
    assert (found.value("mcp_rates_alone"), found.value("mcp_rates_outages_total")) == (1, 1)
    redis_server.start()
    until(lambda: Scrape(server.url).value("mcp_rates_alone") == 0, "mcp_rates_alone is 0")
    assert Scrape(server.url).value("mcp_rates_outages_total") == 1
