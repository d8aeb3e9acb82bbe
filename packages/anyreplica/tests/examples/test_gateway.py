"""Tests of the gateway tools: they return the API's data, or a plain error."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from anyreplica.features.downstream import http_client
from anyreplica.features.downstream.settings import DownstreamSettings
from conftest import StartServer, free_port
from examples.gateway.apis import Api
from tests.calls import call, text
from tests.examples.conftest import refused_start
from tests.examples.upstream import TOKEN, Gateway, response


def test_a_call_stays_beneath_the_url_of_its_api(gateway: Gateway) -> None:
    """A call asks for a URL beneath the API's URL, with only this API's token and without cookies."""
    for path, query, target in (
        ("users/42", None, "/v1/users/42"),
        ("users/42/", {}, "/v1/users/42/"),
        ("", None, "/v1/"),
        ("users", {"page": 2, "all": True, "q": "a&b=c#\r\n"}, "/v1/users?page=2&all=true&q=a%26b%3Dc%23%0D%0A"),
        ("urn:x@y/a b/é/...c", None, "/v1/urn:x@y/a%20b/%C3%A9/...c"),
        ("open", None, "/v1/open"),
        ("open/x", None, "/v1/open/x"),
        ("opened", None, "/v1/opened"),
    ):
        assert gateway.get(path, query) == 1
        assert gateway.target == target
        (head,) = gateway.upstream.asked
        sent = head.split("\r\n")[1:]
        assert f"Host: {gateway.upstream.host}" in sent
        assert (f"Authorization: Bearer {TOKEN}" in sent) is not (path in ("open", "open/x"))
        assert "cookie" not in head.lower()


BOMB = gzip.compress(bytes(50_000_000))
NO_JSON: list[str | bytes] = ["<html>internal", "NaN", '"\\ud800"', b'"\xff"', "[" * 100_000]
CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"


@pytest.mark.parametrize(
    ("answer", "endless", "why"),
    [
        (response('{"why": "internal"}', "X-Server: internal", status="404 internal"), b"", "answered 404 Not Found"),
        (response("internal", status="500 internal"), b"", "answered 500 Internal Server Error"),
        (response("", status="799 internal"), b"", "answered 799"),
        (response("", status="299 internal"), b"", "is not JSON"),
        *((response(body), b"", "is not JSON") for body in NO_JSON),
        (response(gzip.compress(b"{}"), "Content-Encoding: gzip"), b"", "a compressed response"),
        (response(BOMB, "Content-Encoding: gzip"), b"", "a compressed response"),
        (response(" " * 1_048_577), b"", "larger than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNK, "larger than 1048576 bytes"),
        (response("{", length=9), b"", "the connection failed"),
        (b"internal garbage\r\n\r\n", b"", "the connection failed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"internal" * 100_000, b"", "the connection failed"),
        (response(f'["{TOKEN[:6]}\\u0022token\\/\\\\"]'), b"", "a secret of this server"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_failed_calls(gateway: Gateway, answer: bytes, endless: bytes, why: str) -> None:
    """The error says what happened, but does not contain the API's answer or the token."""
    said = gateway.refusal("a", answer=answer, endless=endless)
    assert why in said
    assert "internal" not in said
    assert TOKEN not in said
    assert gateway.get("a") == 1


def test_an_api_that_takes_too_long(gateway: Gateway) -> None:
    """A call of a slow API fails at the time limit. After too many calls at once, all connections are free again."""
    before = http_client.HOSTS.settings
    hasty = {**before.model_dump(), "downstream_timeout_seconds": 0.3}
    http_client.configure(DownstreamSettings.model_validate(hasty))
    assert "did not answer within 0.3 s" in gateway.refusal("a", answer=response("", length=9999), endless=b" ")

    async def crowd() -> list[Any]:
        calls = (gateway.module.call_external_api(f"{gateway.base}/a") for _ in range(150))
        return await asyncio.gather(*calls, return_exceptions=True)

    gateway.upstream.answer = response("", length=9999)
    late, failed = "did not answer within 0.3 s", "sent no complete response: the connection failed"
    busy = "is busy: the call waited for other calls until its time limit"
    assert {str(error).split(" ", 1)[1] for error in gateway.runner.run(crowd())} <= {late, busy, failed}
    http_client.configure(before)
    assert gateway.get("a") == 1


def test_calls_that_are_not_sent(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path or query that is too long for a URL is refused, and the error names an API that can't be reached."""
    assert "too long" in gateway.refusal("a" * 70_000)
    assert "too long" in gateway.refusal("a", {"b": "c" * 70_000})
    nowhere = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(gateway.upstream, "host", nowhere)
    monkeypatch.setitem(gateway.module._APIS.known, gateway.base, Api(gateway.base, ""))
    assert gateway.refusal("a") == f"{nowhere} can't be reached"


def test_a_replica_serves_the_pack(gateway: Gateway, start_server: StartServer, tmp_path: Path) -> None:
    """A replica returns structured data, refuses other URLs, and logs neither the token nor arguments."""
    base = f"http://{gateway.upstream.host}"
    (tmp_path / "gateway_tokens").write_text(f"\n{base} {TOKEN}\n")
    settings = {"GATEWAY_APIS": base, "GATEWAY_TOKENS": "", "SECRETS_DIR": str(tmp_path), "LOG_LEVEL": "DEBUG"}
    server = start_server(MCP_COMPONENTS="server,examples.gateway", **settings)

    def ask(tool: str = "call_external_api", **arguments: Any) -> Any:
        return gateway.runner.run(asyncio.to_thread(call, server.url, tool, arguments))

    for document in ('{"a":[1.5,null]}', "[]", "null", str(10**30)):
        gateway.upstream.answer = response(document)
        reply = ask(url=f"{base}/private/path", query={"q": "private query"})
        assert reply["structuredContent"] == {"result": json.loads(document)}
    assert f"Authorization: Bearer {TOKEN}" in gateway.upstream.asked[-1]
    gateway.upstream.answer = response("1e999")
    assert "cannot be written as JSON" in text(ask(url=base))
    for wrong in ({"url": f"{base}//a"}, {"url": base, "query": {"b": None}}, {"url": base, "query": {"b": {}}}):
        assert ask(**wrong)["isError"]
    assert f"begin with one of: {base}" in text(ask(url="http://169.254.169.254/"))
    found = ask("transform_data", data={"a": [{"b": 2}, {"b": 1}]}, expression="sort_by(a, &b)[*].b")
    assert found["structuredContent"] == {"result": [1, 2]}
    found = ask("validate_schema", data={"private": 1}, json_schema={"required": ["b"]})
    assert found["structuredContent"]["valid"] is False
    assert "private" not in server.output
    assert TOKEN not in server.output


NO_URLS = ["", " , ", "api.example.com", "ftp://a", "http://", "http://me:hunter2@a", "http://a?b", "http://a#b"]
NO_URLS += ["http://a:b", "http://a/%2e%2e", "http://a, b"]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        *(("GATEWAY_APIS", url, "GATEWAY_APIS: ") for url in NO_URLS),
        ("GATEWAY_TOKENS", "http://a hunter2\x7f", "GATEWAY_TOKENS: a token must consist of visible ASCII"),
        ("GATEWAY_TOKENS", "http://a", "GATEWAY_TOKENS: a token must consist of visible ASCII"),
        ("GATEWAY_TOKENS", "http://b hunter2", "GATEWAY_TOKENS: each line must begin"),
        ("GATEWAY_PRIVATE_NETWORKS", "10.0.0.1/8", "GATEWAY_PRIVATE_NETWORKS: 10.0.0.1/8 has host bits set"),
    ],
)
def test_a_wrong_setting_of_the_gateway_stops_the_start(name: str, value: str, why: str) -> None:
    """A wrong setting stops the start; the error names the variable and shows no password."""
    refused_start("gateway", why, **{"GATEWAY_APIS": "http://a", "GATEWAY_TOKENS": "", name: value})
