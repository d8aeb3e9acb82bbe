"""Tests of the two forms of tool schemas: with references replaced, or as written."""

import json

import pytest

from conftest import StartServer
from tests.calls import call, get, legacy, modern


@pytest.mark.parametrize(("dereference", "references"), [("true", False), ("false", True)])
def test_references_are_replaced_or_sent(start_server: StartServer, dereference: str, references: bool) -> None:
    """DEREFERENCE_SCHEMAS decides if lists contain references. Paths and accepted arguments stay the same."""
    server = start_server(MCP_COMPONENTS="tests.packs.results", DEREFERENCE_SCHEMAS=dereference)
    for ask in (legacy, modern):
        lists = [ask(server.url, "tools/list").json()["result"]["tools"] for _ in range(2)]
        assert lists[0] == lists[1]
        (tool,) = [tool for tool in lists[0] if tool["name"] == "gives_person"]
        assert ("$ref" in json.dumps(tool["inputSchema"])) is references
        assert ("$defs" in tool["inputSchema"]) is references
        assert ("$ref" in json.dumps(tool["outputSchema"])) is references
    assert get(f"{server.url}/version").json()["paths"]["gives_person"] == "fast"
    person = {"name": "Ada", "addresses": [{"street": "Byron Road", "no": 3}]}
    result = call(server.url, "gives_person", {"person": person})
    assert result["structuredContent"]["addresses"][0]["street"] == "Byron Road"
    assert call(server.url, "gives_person", {"person": {"name": "Ada", "addresses": [{"street": ""}]}})["isError"]
