"""Tests of the tools that transform and validate JSON: too much work is refused."""

import asyncio
import json
import os
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import until
from examples.gateway import apart
from tests.examples.upstream import Gateway
from tests.processes import children

pytestmark = [pytest.mark.servers, pytest.mark.slow]

USERS = {
    "users": [
        {"name": "Bo", "age": 41, "team": "b", "contact": {"mail": "bo@example.com"}},
        {"name": "Al", "age": 29, "team": "a", "contact": {}},
        {"name": "Cy", "age": 35, "team": "b", "contact": {"mail": "cy@example.com"}},
    ]
}

TOO_MUCH = "too much|took longer"
"""Texts of the errors at the limits of memory, CPU time and real time. A busy machine reaches the last one first."""


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "SECONDS", 1)


def _transform(expression: str, data: Any = None) -> Any:
    return asyncio.run(apart.work("transform", data=data, expression=expression))


def _validate(data: Any, schema: Any) -> Any:
    return asyncio.run(apart.work("validate", data=data, schema=schema))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("users[0].name", "Bo"),
        ("users[?age > `30`].{who: name, mail: contact.mail} | [0]", {"who": "Bo", "mail": "bo@example.com"}),
        ("sort_by(users, &age)[*].name", ["Al", "Cy", "Bo"]),
        ("map(&length(@), values(group_by(users, &team)))", [2, 1]),
        ("keys(group_by(users, &age))", ["41", "29", "35"]),
        ("keys(group_by(users, &contact.mail))", ["bo@example.com", "null", "cy@example.com"]),
        ("nothing.here", None),
        ('`"é😀"`', "é😀"),
    ],
)
def test_transformations(expression: str, expected: Any) -> None:
    """An expression picks, renames, filters, sorts and groups data."""
    assert _transform(expression, USERS) == expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "The expression is invalid"),
        ("users[", "The expression is invalid"),
        ("import('os')", "The expression is invalid: Unknown function"),
        ("sort_by(users, &contact)", "The expression"),
        ("sum(users)", "The expression is invalid"),
        ('`"\\ud800"`', "can't be written as JSON"),
        ("(" * 100_000, "nested too deep"),
        ("[@,@]|" * 13 + "@", "the limit is 1048576 bytes"),
        ("[@,@]|" * 300 + "@", TOO_MUCH),
        ("[@,@]|[]|" * 60 + "@", TOO_MUCH),
        ("[@,@]|to_string(@)|" * 60 + "@", TOO_MUCH),
        ("`[\"a\"]`|[@,@]|[]|join('',@)|" + "[@,@]|join('',@)|" * 60 + "@", "The task needed too much memory"),
    ],
)
def test_expressions_that_are_refused(expression: str, why: str) -> None:
    """A wrong expression gets a plain error, and one that grows too much ends at a limit of size, memory or time."""
    with pytest.raises(ToolError, match=why):
        _transform(expression, USERS)
    assert _transform("users[0].age", USERS) == 41


def test_validation() -> None:
    """Data are validated with the schema's own draft, including formats."""
    schema = {"type": "object", "properties": {"at": {"format": "date"}, "n": {"maximum": 3}}, "required": ["id"]}
    assert _validate({"id": 1, "at": "2026-01-01", "n": 3}, schema) == {"valid": True, "errors": []}
    found = _validate({"at": "soon", "n": 4}, schema)
    assert found["valid"] is False
    assert sorted(error["path"] for error in found["errors"]) == ["$", "$.at", "$.n"]
    assert "'id' is a required property" in {error["message"] for error in found["errors"]}
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True}
    assert _validate(3, draft4)["valid"] is False
    draft2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema", "maximum": 3, "exclusiveMaximum": 4}
    assert _validate(3, draft2020)["valid"]
    assert _validate([{"a": [1]}], {"$ref": "#/$defs/x", "$defs": {"x": {"type": "array"}}})["valid"]
    assert _validate({"type": "string"}, {"$ref": "https://json-schema.org/draft/2020-12/schema"})["valid"]
    assert _validate(1, False)["valid"] is False
    assert len(_validate(["x" * 10_000] * 100, {"items": {"type": "integer"}})["errors"]) == 20


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nonsense"}, "The schema is invalid at "),
        ({"$schema": []}, "."),
        ({"pattern": "("}, "The schema is invalid at "),
        ({"$ref": "#/nowhere"}, "refers to another document"),
        ({"$ref": "#"}, "nested too deep"),
        ({"$ref": "file:///etc/passwd"}, "refers to another document"),
        ({"$dynamicRef": "http://ELSEWHERE/x"}, "refers to another document"),
        ({"$ref": "http://ELSEWHERE/x"}, "refers to another document"),
        ({"$schema": "http://ELSEWHERE/x", "$ref": "http://ELSEWHERE/y"}, "refers to another document"),
        ({"pattern": "^(a+)+$"}, "too much time|took longer"),
    ],
)
def test_schemas_that_are_refused(gateway: Gateway, schema: dict[str, Any], why: str) -> None:
    """A wrong schema gets a plain error, nothing is fetched, and an endless pattern ends at the time limit."""
    text = json.loads(json.dumps(schema).replace("ELSEWHERE", gateway.elsewhere.host))
    with pytest.raises(ToolError, match=why):
        gateway.runner.run(apart.work("validate", data="a" * 40 + "!", schema=text))
    assert gateway.elsewhere.asked == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON, st.text(max_size=30))
@settings(max_examples=5, deadline=None)
def test_anything_gets_an_answer(data: Any, schema: Any, expression: str) -> None:
    """Data are returned unchanged, whatever they contain, and any input gets a result or a plain error."""
    assert _transform("@", data) == data
    for task, given_ in (("validate", {"schema": schema}), ("transform", {"expression": expression})):
        try:
            asyncio.run(apart.work(task, data=data, **given_))
        except ToolError as error:
            assert str(error)  # noqa: PT017


def test_work_ends_after_a_disconnect() -> None:
    """When a caller goes away, its work and its processes end, and other calls can run."""
    before = set(children(os.getpid()))

    async def go() -> None:
        endless = {"data": "a" * 40 + "!", "schema": {"pattern": "^(a+)+$"}}
        tasks = [asyncio.create_task(apart.work("validate", **endless)) for _ in range(5)]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await apart.work("transform", data=1, expression="@") == 1

    asyncio.run(go())
    until(lambda: set(children(os.getpid())) <= before, "all processes and threads of the test have ended")
