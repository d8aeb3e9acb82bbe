"""Long calls that say nothing, through a real proxy that closes quiet connections."""

import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conftest import Server, free_port, until
from tests.calls import BOTH, call
from tests.replicas import Family, asking

pytestmark = pytest.mark.needs("haproxy")

_CUT_MILLISECONDS = 1500
_CONFIG = """
defaults
  mode http
  timeout connect 5s
  timeout client {cut}
  timeout server {cut}
listen quiet
  bind 127.0.0.1:{port}
  server replica 127.0.0.1:{replica}
"""


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that makes a quiet call an event stream after 0.3 s."""
    log = tmp_path_factory.mktemp("long_calls") / "log"
    with Server(log, MCP_COMPONENTS="tests.packs.waiting", FIRST_EVENT_SECONDS="0.3") as server:
        yield server


@pytest.fixture(scope="module")
def proxy(replica: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a HAProxy in front of the replica. It closes a connection that is quiet for 1.5 s."""
    port = free_port()
    file = tmp_path_factory.mktemp("haproxy") / "haproxy.cfg"
    file.write_text(_CONFIG.format(cut=_CUT_MILLISECONDS, port=port, replica=replica.port))
    process = subprocess.Popen(["haproxy", "-f", file], stdout=subprocess.DEVNULL, start_new_session=True)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/readyz", verify=False).status_code == 200
        except httpx.HTTPError:
            return False

    until(answers, "the proxy answers")
    yield url
    process.terminate()
    process.wait()


def _sent(family: Family, key: str, accept: str) -> dict[str, Any]:
    asked = asking(family, "tools/call", {"name": "wait", "arguments": {"key": key}})
    return {"json": asked["json"], "headers": {**asked["headers"], "Accept": accept}}


@pytest.mark.parametrize("family", ["handshake", "stateless"])
def test_a_quiet_call_outlives_the_time_limit_of_a_proxy(replica: Server, proxy: str, family: Family) -> None:
    """The call becomes an event stream with comments, and ends with its result long after the proxy's time limit."""
    comments, events = 0, []
    with (
        httpx.Client(verify=False, timeout=60) as client,
        client.stream("POST", f"{proxy}/mcp", **_sent(family, family, BOTH)) as reply,
    ):
        assert reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines():
            comments += line.startswith(":")
            events += [line] if line.startswith("data:") else []
            if comments == 8 and not events:  # 2.4 s
                call(replica.url, "release", {"key": family})
    assert comments >= 8
    (event,) = events
    assert f'"text":"{family}"' in event


@pytest.mark.parametrize("family", ["handshake", "stateless"])
def test_a_client_that_accepts_only_json_gets_no_stream(replica: Server, proxy: str, family: Family) -> None:
    """The proxy answers such a client with HTTP 504. The call without the proxy still gets its JSON reply."""
    with httpx.Client(verify=False, timeout=60) as client:
        cut = client.post(f"{proxy}/mcp", **_sent(family, "-cut", "application/json"))
    assert cut.status_code == 504
