"""One API for agents: they get what it has, and its faults are told in plain words."""

import asyncio
import gzip
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import StartServer, free_port
from server.errors import StartupError
from tests.examples.upstream import TOKEN, Api, response
from tests.mcp import call, text


def test_the_api_is_asked_for_what_is_beneath_its_url(api: Api) -> None:
    """With the token, and nothing that another caller left."""
    for path, query, target in (
        ("users/42", None, "/v1/users/42"),
        ("/users/42/", {}, "/v1/users/42/"),
        ("users", {"page": 2, "all": True, "q": "a&b=c#\r\n"}, "/v1/users?page=2&all=true&q=a%26b%3Dc%23%0D%0A"),
        ("urn:x@y/a b/é/...c", None, "/v1/urn:x@y/a%20b/%C3%A9/...c"),
    ):
        assert api.get(path, query) == 1
        assert api.target == target
        (head,) = api.upstream.asked
        sent = head.split("\r\n")[1:]
        assert f"Host: {api.upstream.host}" in sent
        assert f"Authorization: Bearer {TOKEN}" in sent
        assert "cookie" not in head.lower()


BOMB = gzip.compress(bytes(50_000_000))
CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"


@pytest.mark.parametrize(
    ("answer", "endless", "why"),
    [
        (response('{"why": "internal"}', "X-Server: internal", status="404 internal"), b"", "answered 404 Not Found"),
        (response("internal", status="500 internal"), b"", "answered 500 Internal Server Error"),
        (response("", status="299 internal"), b"", "no JSON"),
        (response("", status="799 internal"), b"", "answered 799"),
        (response("<html>internal"), b"", "no JSON"),
        (response("NaN"), b"", "no JSON"),
        (response('"\\ud800"'), b"", "no JSON"),
        (response(b'"\xff"'), b"", "no JSON"),
        (response("[" * 100_000), b"", "no JSON"),
        (response(gzip.compress(b"{}"), "Content-Encoding: gzip"), b"", "no JSON"),
        (response(BOMB, "Content-Encoding: gzip"), b"", "no JSON"),
        (response(" " * 1_048_577), b"", "larger than 1048576 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNK, "larger than 1048576 bytes"),
        (response("{", length=9), b"", "broke off"),
        (b"internal garbage\r\n\r\n", b"", "broke off"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"internal" * 100_000, b"", "broke off"),
        (response(f'["{TOKEN[:6]}\\u0022token\\/\\\\"]'), b"", "a secret of this server's"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_answer(api: Api, answer: bytes, endless: bytes, why: str) -> None:
    """The caller learns what happened, and nothing that the API said."""
    said = api.refusal("a", answer=answer, endless=endless)
    assert why in said
    assert "internal" not in said
    assert TOKEN not in said
    assert api.get("a") == 1


def test_an_api_that_takes_too_long(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte, or with nothing; more calls than there are connections leave none taken."""
    monkeypatch.setattr(api.module, "_SECONDS", 0.2)
    assert "within 0.2 s" in api.refusal("a", answer=response("", length=9999), endless=b" ")

    async def crowd() -> list[Any]:
        return await asyncio.gather(*(api.module.get_json("a") for _ in range(150)), return_exceptions=True)

    api.upstream.answer = response("", length=9999)
    assert {str(error) for error in api.runner.run(crowd())} == {"the API did not answer within 0.2 s"}
    monkeypatch.undo()
    assert api.get("a") == 1


def test_a_path_that_is_too_long(api: Api) -> None:
    """For a URL."""
    assert api.refusal("a" * 70_000) == "path and query are too long"
    assert api.refusal("a", {"b": "c" * 70_000}) == "path and query are too long"


def test_an_api_that_is_not_there(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address is not told."""
    monkeypatch.setattr(api.module, "_BASE", f"http://127.0.0.1:{free_port()}")
    assert api.refusal("a") == "the API can't be reached, or its answer broke off"


def test_a_replica_serves_the_pack(api: Api, start_server: StartServer, tmp_path: Path) -> None:
    """Its log has neither the token, which may be a secret file's, nor what callers ask for."""
    (tmp_path / "api_token").write_text(f"{TOKEN}\n")
    server = start_server(
        MCP_COMPONENTS="server,examples.api",
        API_BASE_URL=f"http://{api.upstream.host}",
        API_TOKEN="",
        SECRETS_DIR=str(tmp_path),
        LOG_LEVEL="DEBUG",
    )

    def ask(**arguments: Any) -> Any:
        return api.runner.run(asyncio.to_thread(call, server.url, "get_json", arguments))

    for document in ('{"a":[1.5,null]}', "[]", "null", str(10**30)):
        api.upstream.answer = response(document)
        reply = ask(path="private/path", query={"q": "private query"})
        assert reply["structuredContent"] == {"result": json.loads(document)}
    assert f"Authorization: Bearer {TOKEN}" in api.upstream.asked[-1]
    api.upstream.answer = response("1e999")
    assert "JSON can't carry" in text(ask(path="a"))
    for wrong in ({"path": "//a"}, {"path": "a", "query": {"b": None}}, {"path": "a", "query": {"b": {}}}, {"path": 1}):
        assert ask(**wrong)["isError"]
    assert "private" not in server.output
    assert TOKEN not in server.output


NO_URLS = ["", "api.example.com", "ftp://a", "http://", "http://me:hunter2@a", "http://a?b", "http://a#b", "http://a:b"]


@pytest.mark.parametrize(
    ("url", "token", "why"),
    [*((url, "", "API_BASE_URL: required") for url in NO_URLS), ("http://a", "hunter2\n", "API_TOKEN: visible ASCII")],
)
def test_no_start_without_an_api(monkeypatch: pytest.MonkeyPatch, url: str, token: str, why: str) -> None:
    """The variable is named, and no password shown."""
    monkeypatch.setenv("API_BASE_URL", url)
    monkeypatch.setenv("API_TOKEN", token)
    monkeypatch.delitem(sys.modules, "examples.api.tools", raising=False)
    with pytest.raises(StartupError, match=why) as error:
        importlib.import_module("examples.api.tools")
    assert "hunter2" not in str(error.value)
