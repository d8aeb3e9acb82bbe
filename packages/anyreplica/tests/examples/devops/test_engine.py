"""An engine that misbehaves or is missing: callers get a plain error soon."""

import asyncio
import gzip
import json
import socket
from collections.abc import Iterator

import pytest
from fastmcp.exceptions import ToolError

from conftest import free_port
from examples.devops import _docker
from tests.examples.conftest import refused_start
from tests.examples.devops.conftest import Devops, opened
from tests.examples.upstream import Upstream, response

CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"


@pytest.fixture
def upstream() -> Upstream:
    """A server that answers in place of an engine."""
    return Upstream()


@pytest.fixture
def devops(upstream: Upstream) -> Iterator[Devops]:
    """The pack for this server."""
    with asyncio.Runner() as runner:
        server = runner.run(upstream.start())
        with opened(f"tcp://{upstream.host}") as found:
            # The pack's own loop runs only during a call, so the server and the pack share this loop.
            yield Devops(runner, found.module)
            runner.run(found.module._DOCKER.close())
        server.close()
        runner.run(asyncio.wait_for(server.wait_closed(), 5))


NO_LISTS = [response("<html>internal"), response('{"message": "internal"}'), response("[null]")]
NO_LISTS += [response(json.dumps([{"ID": "internal", "Spec": {"Name": ["internal"]}}])), response("[" * 100_000)]
NO_LISTS += [response("[" + "1," * 1_000_000 + "1]"), response(gzip.compress(b"[]"), "Content-Encoding: gzip")]


@pytest.mark.parametrize(
    ("answer", "endless", "why"),
    [
        (response('{"message": "internal"}', status="503 internal"), b"", "engine at DOCKER_HOST is not a manager"),
        (response("internal", status="403 internal"), b"", "Docker answered HTTP 403 Forbidden"),
        (response("internal", status="400 internal"), b"", "Docker answered HTTP 400 Bad Request"),
        (response("", "Location: http://internal/", status="301 internal"), b"", "Docker answered HTTP 301 Moved"),
        (response("[]", status="204 internal"), b"", "Docker answered HTTP 204"),
        *((answer, b"", "list in the expected form") for answer in NO_LISTS),
        (response(" " * 8_388_609), b"", "the limit is 8388608 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNK, "the limit is 8388608 bytes"),
        (response("[", length=9), b"", "was incomplete"),
        (b"internal garbage\r\n\r\n", b"", "was incomplete"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_is_not_from_an_engine(
    devops: Devops, upstream: Upstream, answer: bytes, endless: bytes, why: str
) -> None:
    """The error says what happened, but does not contain the engine's answer."""
    upstream.answer, upstream.endless = answer, endless
    said = devops.refusal()
    assert why in said
    assert "internal" not in said
    upstream.answer, upstream.endless = response("[]"), b""
    assert devops.ask("list_deployments").deployments == []


def test_an_engine_that_hangs(devops: Devops, upstream: Upstream) -> None:
    """An engine that answers too slowly or not at all causes an error at the time limit."""
    upstream.answer, upstream.endless = response("[", length=9999), b" "
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for host in (upstream.host, f"127.0.0.1:{silent.getsockname()[1]}"):
            docker = _docker.Docker(f"tcp://{host}", limit_seconds=0.2)
            with pytest.raises(ToolError, match=r"^Docker did not answer within 0\.2 s; retry later\.$"):
                devops.runner.run(docker.services())
            devops.runner.run(docker.close())


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:PORT", f"unix:///{'a' * 200}"])
def test_an_engine_that_is_not_there(caplog: pytest.LogCaptureFixture, host: str) -> None:
    """If the engine cannot be reached, the caller gets a plain error, and only the log has the reason."""
    with opened(host.replace("PORT", str(free_port()))) as devops:
        assert devops.refusal() == "Docker can't be reached, or its reply was incomplete; retry later."
    assert "Can't reach Docker (DOCKER_HOST): " in caplog.text


def test_no_proxy_is_used(devops: Devops, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack does not use a proxy, even if the environment names one."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    upstream.answer = response("[]")
    docker = _docker.Docker(f"tcp://{upstream.host}")
    assert devops.runner.run(docker.services()) == []
    devops.runner.run(docker.close())
    (head,) = upstream.asked
    assert head.startswith("GET /v1.44/services?")
    assert f"\r\nHost: {upstream.host}\r\n" in head


NO_HOSTS = ["docker", "unix://", "unix:///", "unix://docker.sock", "ssh://me@host", "npipe:////./pipe/docker", "tcp://"]
NO_HOSTS += ["tcp://me:hunter2@host", "tcp://host/path", "tcp://host?a", "tcp://host#a", "tcp://host:a", "tcp://host:0"]
NO_HOSTS += ["http://host:2375", "tcp://host:70000", "tcp://[", "unix:///a\n"]


@pytest.mark.parametrize("host", NO_HOSTS)
def test_no_start_without_an_engine(host: str) -> None:
    """A wrong DOCKER_HOST stops the start; the error names the variable and shows no password."""
    refused_start("devops", "DOCKER_HOST: must be unix:///path/of/socket or tcp://host:port", DOCKER_HOST=host)


@pytest.mark.parametrize("host", ["", "tcp://proxy", "tcp://[::1]:2375/", "unix:///run/a"])
def test_a_valid_address_of_an_engine_is_accepted(host: str) -> None:
    """A valid DOCKER_HOST is accepted, and the start sends no request to the engine."""
    with opened(host) as devops:
        assert devops.module._DOCKER is not None
