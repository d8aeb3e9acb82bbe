"""A component that a caller may not use does not exist for this caller."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from anyreplica.features.keys.key import hash_of
from conftest import Server
from tests.calls import FULL, legacy, modern

KEYS = {name: name[0] * 40 for name in ("reader", "seller", "all", "nothing", "jobs", "weak")}
MAY: dict[str, dict[str, Any]] = {
    "reader": {"scopes": ["reports:read"], "tools": ["echo", "read_report"]},
    "seller": {"tools": ["sales_*"]},
    "all": {"scopes": ["reports:read", "other"]},
    "nothing": {"tools": []},
    "weak": {"scopes": ["other"]},
    "jobs": {"tools": ["submit_job", "job_*", "export_data"], "owner": "acme"},
}
SEES: dict[str, set[str]] = {
    "reader": {"echo", "read_report"},
    "seller": {"sales_of_the_year", "sales_of_the_day"},
    "nothing": set(),
    "jobs": {"submit_job", "job_status", "job_result", "export_data"},
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica with the keys of `MAY`."""
    folder = tmp_path_factory.mktemp("scoped")
    entries = [{"id": name, "hash": hash_of(KEYS[name]), **may} for name, may in MAY.items()]
    (folder / "keys").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    settings = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(folder / "keys")}
    settings["MCP_COMPONENTS"] = "server,tests.packs.scoped"
    with Server(folder / "log", **settings) as server:
        yield server


def said(reply: httpx.Response) -> Any:
    """Return the message of a reply, which may be JSON or an event stream."""
    text = reply.text
    if reply.headers["content-type"].startswith("text/event-stream"):
        text = next(line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return json.loads(text)


def asked(server: Server, who: str, method: str, family: str = "legacy", **params: Any) -> Any:
    """Return the reply to a caller's request."""
    ask = legacy if family == "legacy" else modern
    accept = "application/json, text/event-stream"
    return said(ask(server.url, method, params, Authorization=f"Bearer {KEYS[who]}", Accept=accept))


@pytest.mark.parametrize("family", ["legacy", "modern"])
@pytest.mark.parametrize("who", SEES)
def test_a_list_contains_only_permitted_tools(secured: Server, who: str, family: str) -> None:
    """A list contains only the tools that its caller may use, even when the list comes from the cache."""
    for _ in range(2):
        names = {tool["name"] for tool in asked(secured, who, "tools/list", family)["result"]["tools"]}
        assert names == SEES[who]


def test_the_paths_of_the_version_are_those_of_permitted_tools(secured: Server) -> None:
    """`/version` names only tools that its caller may use, and none to a caller that may use none."""
    for who in ("seller", "nothing"):
        version = httpx.get(f"{secured.url}/version", headers={"Authorization": f"Bearer {KEYS[who]}"}).json()
        assert version["paths"].keys() == SEES[who]


@pytest.mark.parametrize("family", ["legacy", "modern"])
def test_a_list_depends_on_the_scopes_of_its_caller(secured: Server, family: str) -> None:
    """Two callers that may use all tools, with different scopes, get different lists."""
    for _ in range(2):
        for who in ("all", "weak"):
            names = {tool["name"] for tool in asked(secured, who, "tools/list", family)["result"]["tools"]}
            assert ("read_report" in names) == (who == "all")
            assert "sales_of_the_day" in names


@pytest.mark.parametrize("family", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("who", "tool"),
    [
        ("reader", "add"),
        ("seller", "echo"),
        ("seller", "read_report"),
        ("nothing", "echo"),
        ("jobs", "generate_report"),
    ],
)
def test_a_hidden_tool_looks_like_an_unknown_one(secured: Server, who: str, tool: str, family: str) -> None:
    """A hidden tool gets the answer of an unknown one, for any arguments, on both paths, with a progress token, too."""
    for arguments in ({}, {"message": "x"}, {"a": 1, "b": 2}, {"rows": 5}):
        for meta in ({}, {"_meta": {"progressToken": 1}}, {"_meta": FULL}) if family == "legacy" else ({},):
            hidden = asked(secured, who, "tools/call", family, name=tool, arguments=arguments, **meta)
            absent = asked(secured, who, "tools/call", family, name="nope", arguments=arguments, **meta)
            assert json.dumps(hidden) == json.dumps(absent).replace("nope", tool)


def test_a_caller_may_use_permitted_tools(secured: Server) -> None:
    """A caller may use a tool that the key names, or that a pattern or a scope of the key allows."""
    tools = (("seller", "sales_of_the_year"), ("reader", "read_report"), ("all", "read_report"), ("reader", "echo"))
    for who, tool in tools:
        arguments = {"message": "hi"} if tool == "echo" else {}
        assert asked(secured, who, "tools/call", name=tool, arguments=arguments)["result"]["isError"] is False


def test_a_hidden_job_cannot_be_reached_in_any_way(secured: Server) -> None:
    """A hidden job cannot be called as a tool, with `submit_job` or over REST, and no error names it."""
    submitted = asked(secured, "jobs", "tools/call", name="submit_job", arguments={"job": "generate_report"})
    told = submitted["result"]["content"][0]["text"]
    assert told == "There is no job named 'generate_report'. Available jobs: export_data."
    headers = {"Authorization": f"Bearer {KEYS['jobs']}"}
    reply = httpx.post(f"{secured.url}/jobs", json={"job": "generate_report"}, headers=headers, verify=False)
    assert (reply.status_code, reply.json()["message"]) == (422, told)
    assert "generate_report" not in json.dumps(asked(secured, "jobs", "tools/list"))
