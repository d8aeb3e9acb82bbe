"""The tools that the tests call, with valid arguments for each."""

from types import ModuleType
from typing import Any

from fastmcp.decorators import get_fastmcp_meta

from tests.packs.results import arguments, contexts, declared, failing, plain, unusual, wrong


def tools_of(module: ModuleType) -> list[str]:
    """Return the names of a module's tools."""
    public = ((name, get_fastmcp_meta(value)) for name, value in sorted(vars(module).items()) if name[0] != "_")
    return [getattr(meta, "name", None) or name for name, meta in public if meta is not None]


PLAIN = [*tools_of(plain), *tools_of(declared)]
UNUSUAL, FAILING, WRONG = tools_of(unusual), tools_of(failing), tools_of(wrong)
ARGUMENTS, CONTEXTS = tools_of(arguments), tools_of(contexts)
WITHOUT_RESULT = {"asks", "asks_as_it_says", "result_of_error", "result_of_the_protocol_of_error"}
WITHOUT_RESULT |= {"raw_within", "undeclared_raw_within", *WRONG}
"""Tools without a successful result.

They ask a question that only one protocol supports, report an error, or return a value that FastMCP does not convert.
"""
NEVER_BEGUN = {"depends_on_failure", "depends_on_failure_for_the_caller", "depends_on_failure_to_validate"}
"""Tools whose body does not run, because a dependency fails."""
SHIPPED = ["add", "echo", "server_info"]
TOOLS = [*SHIPPED, *PLAIN, *UNUSUAL, *WRONG, *FAILING, *ARGUMENTS, *CONTEXTS]

VALID: dict[str, dict[str, Any]] = {
    "add": {"a": 1, "b": 2.5},
    "echo": {"message": "hello 👋", "repeat": 2},
    "gives_anything": {"value": {"a": [1, None, 1e22, 10**30, "ä"]}},
    "gives_undeclared": {"value": [1, {"b": None}]},
    "gives_mapping": {"value": {"a": {"b": 1.0}}},
    "gives_items": {"value": [1, "2", None]},
    "gives_text": {"value": "\x00 ä 👋 \u2028"},
    "gives_number": {"value": 10**40},
    "gives_fraction": {"value": -0.0},
    "gives_truth": {"value": True},
    "gives_either": {"value": [1, 2.5]},
    "gives_person": {"person": {"name": "Ä", "born": "2000-02-29", "addresses": [{"street": "s", "no": 1}]}},
    "gives_range": {"span": {"start": 1}},
    "strict": {"value": 3},
    "constrained": {"age": 150, "word": "xyz", "kind": "b"},
    "keyword_only": {"first": "one"},
    "converted": {
        "unit": "ft",
        "at": "2026-07-28T12:00:00Z",
        "wait": "PT3S",
        "price": "1.10",
        "key": "00000000-0000-0000-0000-000000000001",
        "raw": "raw",
        "group": [3, 1, 1],
    },
    "aliased": {"from": 3},
    "shadowing": {"arguments": 3, "name": "m", "self": 1, "cls": 2},
    "by_region": {"region": "north"},
    "calls_another": {"name": "gives_mapping", "arguments": {"value": {"a": 10**30}}},
    "counts": {"key": "k"},
    "counts_in_a_thread": {"key": "k"},
    "counts_against_its_schema": {"key": "k"},
}
