"""Spans of requests to other hosts, beneath the call that makes them."""

from collections.abc import Iterator, Mapping

import pytest

from conftest import Server, free_port
from tests.downstream.exchange.served import Reply, served
from tests.tracing.calls import Caller, call
from tests.tracing.collector import Collector


class _Mirror:
    def answer(self, path: str, headers: Mapping[str, str], _: bytes) -> Reply:
        return Reply(404 if "missing" in path else 200, headers.get("traceparent", "").encode())


@pytest.fixture(scope="module")
def mirror() -> Iterator[str]:
    """The URL of a server that returns the `traceparent` of a request."""
    with served(_Mirror()) as host:
        yield f"http://{host}"


def test_the_other_host_gets_the_span(traced: Server, collector: Collector, mirror: str) -> None:
    """The other host gets the id of the span of its request, and the span does not contain the query."""
    caller = Caller()
    params = {"name": "ask", "arguments": {"url": f"{mirror}/rates?key=hush"}}
    reply = call(traced.url, "stateless", "tools/call", params, header=caller.traceparent).json()
    _, beneath, client = collector.trace(caller.trace)
    assert (client["name"], client["kind"], client["status"]) == ("GET", "CLIENT", "UNSET")
    assert client["parent"] == beneath["id"]
    assert reply["result"]["content"][0]["text"] == f"00-{caller.trace}-{client['id']}-01"
    assert client["attributes"]["url.full"] == f"{mirror}/rates"
    assert client["attributes"]["http.response.status_code"] == 200


@pytest.mark.parametrize("fault", ["404", "ConnectError"])
def test_a_failed_request_is_marked(traced: Server, collector: Collector, mirror: str, fault: str) -> None:
    """A failed request to another host is marked in its span and in the call's span."""
    caller = Caller()
    url = f"{mirror}/missing" if fault == "404" else f"http://127.0.0.1:{free_port()}/"
    params = {"name": "ask", "arguments": {"url": url}}
    call(traced.url, "stateless", "tools/call", params, header=caller.traceparent)
    _, beneath, client, *_ = collector.trace(caller.trace)
    assert (client["status"], client["attributes"]["error.type"]) == ("ERROR", fault)
    assert beneath["status"] == "ERROR"
