"""Long names in requests, notifications and responses."""

import pytest

from conftest import until
from tests.attacks.conftest import Attack
from tests.attacks.test_arguments import answers
from tests.damage.wire import echo, handshake, notification, post, stateless

_LONG = "x" * 4_000_000
_ARGUMENT = {"name": "a", "value": ""}


@pytest.mark.alone
def test_long_methods_of_notifications(attack: Attack) -> None:
    """A replica refuses a notification with a very long method, and neither keeps nor logs the method."""
    replica = attack(LOG_LEVEL="INFO")
    before = replica.rss
    with replica.beside_good_client():
        for number in range(60):
            (said,) = answers(replica, [notification(f"{number}{_LONG}")], 1)
            assert said.startswith(b"HTTP/1.1 400 ")
    until(lambda: replica.rss < before + 60, "the replica has freed the memory")
    assert len(replica.server.output) < 1_000_000


@pytest.mark.alone
def test_long_names_in_requests(attack: Attack) -> None:
    """A very long name, method, URI, id, cursor or token gets a short refusal, and stays in no memory and no log."""
    replica = attack(LOG_LEVEL="DEBUG", TOOL_COSTS="slow_*=2", RATE_LIMIT="100000/s")
    before = replica.rss
    asked = [
        handshake("tools/call", {"name": _LONG, "arguments": {}}),
        handshake("prompts/get", {"name": _LONG}),
        handshake("resources/read", {"uri": f"x://{_LONG}"}),
        handshake(_LONG),
        handshake("ping", {}, _LONG),
        handshake("tools/call", {"name": "echo", "arguments": {}, "_meta": {"progressToken": _LONG}}),
        handshake("tools/list", {"cursor": _LONG}),
        handshake("completion/complete", {"ref": {"type": "ref/prompt", "name": _LONG}, "argument": _ARGUMENT}),
        stateless("tools/call", {"name": _LONG, "arguments": {}}, Mcp_Name="x"),
        post({"job": _LONG, "params": {}}, path="/jobs"),
    ]
    with replica.beside_good_client():
        for said in answers(replica, asked, 3):
            assert said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 503 ")), said[:300]
            assert len(said) < 2000
        for _ in range(10):
            answers(replica, asked, 1)
    until(lambda: replica.rss < before + 60, "the replica has freed the memory")
    assert max(len(line.encode()) for line in replica.server.output.split("\n")) <= 8192


@pytest.mark.alone
def test_no_line_of_log_is_long(attack: Attack) -> None:
    """No log line is longer than 8 KB, in either format."""
    for form in ("text", "json"):
        replica = attack(LOG_LEVEL="DEBUG", LOG_FORMAT=form, MCP_COMPONENTS="server,tests.packs.hostile")
        texts = [_LONG[:3_000_000], "\x00" * 600_000, "é€😀" * 200_000, "\n" * 500_000]
        calls = [echo(text, 99) for text in texts]
        calls += [handshake("tools/call", {"name": "raises", "arguments": {"message": text}}) for text in texts]
        calls += [handshake("prompts/get", {"name": "summary", "arguments": {text: text}}) for text in texts]
        answers(replica, calls, 1)
        assert max(len(line.encode()) for line in replica.server.output.split("\n")) <= 8192


def test_notifications_and_responses_count(attack: Attack) -> None:
    """Notifications and responses count against their caller's rate limit, like requests."""
    replica = attack(RATE_LIMIT="10/h", RATE_BURST="10")
    message = post({"jsonrpc": "2.0", "id": 1, "result": {}}, MCP_Protocol_Version="2025-11-25")
    for request in (notification("notifications/x"), message):
        said = answers(replica, [request], 12)
        assert any(each.startswith(b"HTTP/1.1 429 ") for each in said)
