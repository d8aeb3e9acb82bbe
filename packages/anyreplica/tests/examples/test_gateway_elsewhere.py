"""No URL, query or redirect leads out of the APIs' URLs."""

import posixpath
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import generated
from tests.examples.upstream import Gateway, response

REFUSED = ["/", "///", "//elsewhere/x", "/\\elsewhere", "http://elsewhere/", "..", "../admin", "a/../../admin"]
REFUSED += ["a/.", "a//b", ".. /x", ".../x", "a/ /b", "..;/admin", "..\\admin", "%2e%2e/admin", "a%2f..%2fb"]
REFUSED += ["a?b=c", "a#b", "a\0", "a\tb", "a\x7f", "a\u2028b", "\ud800", "a\r\nHost: elsewhere", "a HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize("path", REFUSED, ids=ascii)
def test_an_invalid_path_is_refused(gateway: Gateway, path: str) -> None:
    """An invalid path is refused without a request."""
    assert "the path must be names" in gateway.refusal(path)
    assert gateway.upstream.asked == []


NO_APIS = ["", "/v1", "v1/a", "http://", "BASE@ELSEWHERE/", "BASE.ELSEWHERE/", "BASE:80@ELSEWHERE/", "BASEx/a"]
NO_APIS += ["BASE?a", "http://ELSEWHERE/", "http://ELSEWHERE#BASE/", "http://ELSEWHERE\\\\@HOST/v1/", "http:/HOST/v1/"]
NO_APIS += ["//HOST/v1/"]
NO_APIS += ["http://HOST/", "http://HOST/v1\\a", "http://HOST//v1/", "http://HOST/./v1/", "HTTP://HOST/v1/", " BASE/"]
NO_APIS += ["http://HOST\t/v1/", "file:///etc/passwd", "http://127.0.0.1/v1/", "http://me@HOST/v1/"]


@pytest.mark.parametrize("url", NO_APIS, ids=ascii)
def test_a_url_outside_all_apis_is_refused(gateway: Gateway, url: str) -> None:
    """A URL that is not beneath an API's URL is refused without a request."""
    for name, value in (("ELSEWHERE", gateway.elsewhere.host), ("BASE", gateway.base), ("HOST", gateway.upstream.host)):
        url = url.replace(name, value)
    gateway.upstream.asked.clear()
    with pytest.raises(ToolError, match=f"url must begin with one of: {gateway.base}, {gateway.base}/open"):
        gateway.runner.run(gateway.module.call_external_api(url))
    assert gateway.upstream.asked == []
    assert gateway.elsewhere.asked == []


PARTS = ["..", ".", "/", "//", "\\", "@", ":", "%2e", "%2F", "%", "http:", "?", "#", ";", "\r\n", " ", "．．"]
PARTS += ["a", "ELSEWHERE"]
PATHS = st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=8).map("".join)
VALUES = st.text(max_size=5) | st.integers() | st.sampled_from(PARTS)


@generated(400)
@given(path=PATHS, query=st.dictionaries(st.text(max_size=5) | st.sampled_from(PARTS), VALUES, max_size=3))
@example(path="@ELSEWHERE/", query={})
@example(path="http:/ELSEWHERE/", query={"..": "/../"})
@example(path=":80@ELSEWHERE", query={})
def test_no_path_leads_elsewhere(gateway: Gateway, path: str, query: dict[str, Any]) -> None:
    """A path is refused or leads to one request beneath the API's URL, however often a server decodes it."""
    path = path.replace("ELSEWHERE", gateway.elsewhere.host)
    try:
        gateway.get(path, query)
    except ToolError:
        assert gateway.upstream.asked == []
        return
    target, _, asked = gateway.target.partition("?")
    assert unquote(target) == f"/v1/{path}"
    assert parse_qsl(asked, keep_blank_values=True) == [(name, str(value)) for name, value in query.items()]
    for _ in range(4):
        target = unquote(target).replace("\\", "/")
        assert f"{posixpath.normpath(target)}/".startswith("/v1/")
    assert gateway.elsewhere.asked == []
    assert f"\r\nHost: {gateway.upstream.host}\r\n" in gateway.upstream.asked[0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["http://ELSEWHERE/x", "//ELSEWHERE/x", "/v1/other", "http://[", "\\\\ELSEWHERE"])
def test_redirects_are_not_followed(gateway: Gateway, status: int, where: str) -> None:
    """A redirect is not followed, and the error does not show its target."""
    where = where.replace("ELSEWHERE", gateway.elsewhere.host)
    said = gateway.refusal("a", answer=response("", f"Location: {where}", status=f"{status} Moved"))
    assert f"answered {status} " in said
    assert where not in said
    assert gateway.target == "/v1/a"
    assert gateway.elsewhere.asked == []
