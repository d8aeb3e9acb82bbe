"""No path, query or redirect leads out of the API's URL."""

import posixpath
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples.upstream import Api, response

REFUSED = ["", "/", "///", "//elsewhere/x", "/\\elsewhere", "http://elsewhere/", "..", "../admin", "a/../../admin"]
REFUSED += ["a/.", "a//b", ".. /x", ".../x", "a/ /b", "..;/admin", "..\\admin", "%2e%2e/admin", "a%2f..%2fb"]
REFUSED += ["a?b=c", "a#b", "a\0", "a\tb", "a\x7f", "a\u2028b", "\ud800", "a\r\nHost: elsewhere", "a HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize("path", REFUSED, ids=ascii)
def test_what_is_no_path(api: Api, path: str) -> None:
    """Is refused before anything is asked."""
    assert "path must be names" in api.refusal(path)
    assert api.upstream.asked == []


PARTS = ["..", ".", "/", "//", "\\", "@", ":", "%2e", "%2F", "%", "http:", "?", "#", ";", "\r\n", " ", "．．"]
PARTS += ["a", "ELSEWHERE"]
PATHS = st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=8).map("".join)
VALUES = st.text(max_size=5) | st.integers() | st.sampled_from(PARTS)


@settings(max_examples=400, deadline=None)
@given(path=PATHS, query=st.dictionaries(st.text(max_size=5) | st.sampled_from(PARTS), VALUES, max_size=3))
@example(path="@ELSEWHERE/", query={})
@example(path="http:/ELSEWHERE/", query={"..": "/../"})
@example(path=":80@ELSEWHERE", query={})
def test_no_path_leads_elsewhere(api: Api, path: str, query: dict[str, Any]) -> None:
    """It is refused, or one request asks for what it says, however often a server decodes it."""
    path = path.replace("ELSEWHERE", api.elsewhere.host)
    try:
        api.get(path, query)
    except ToolError:
        assert api.upstream.asked == []
        return
    target, _, asked = api.target.partition("?")
    assert unquote(target) == f"/v1/{path.removeprefix('/')}"
    assert parse_qsl(asked, keep_blank_values=True) == [(name, str(value)) for name, value in query.items()]
    for _ in range(4):
        target = unquote(target).replace("\\", "/")
        assert posixpath.normpath(target).startswith("/v1/")
    assert api.elsewhere.asked == []
    assert f"\r\nHost: {api.upstream.host}\r\n" in api.upstream.asked[0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["http://ELSEWHERE/x", "//ELSEWHERE/x", "/v1/other", "http://[", "\\\\ELSEWHERE"])
def test_redirects_are_not_followed(api: Api, status: int, where: str) -> None:
    """Wherever they lead; and where that is, is not told."""
    where = where.replace("ELSEWHERE", api.elsewhere.host)
    said = api.refusal("a", answer=response("", f"Location: {where}", status=f"{status} Moved"))
    assert f"the API redirects ({status} " in said
    assert where not in said
    assert api.target == "/v1/a"
    assert api.elsewhere.asked == []
