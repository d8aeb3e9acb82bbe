"""Writes the tables of docs/explanation/tried.md: `python -m tests.world.page`. A test of the page checks them."""

import json
import re
from pathlib import Path

from tests.world.clients.frameworks import FRAMEWORKS, NODE, Framework
from tests.world.servers.known import DIFFERENCES
from tests.world.servers.public import SERVERS, PublicServer

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "tried.md"
_NODE: dict[str, str] = json.loads((Path(__file__).parent / "clients" / "node" / "package.json").read_text())[
    "dependencies"
]


def page(text: str) -> str:
    """Return the text of the page with the present tables."""
    for name, table in (("servers", _servers()), ("differences", _differences()), ("frameworks", _frameworks())):
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = marked.subn(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)  # type: ignore[misc]
        assert count == 1, name
    return text


def _servers() -> str:
    lines = ["| server | built with | result |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {_versioned(each.package)} | {each.kind} | {_result(each)} |" for each in SERVERS)])


def _result(server: PublicServer) -> str:
    if server.conflict:
        return f"excludes our versions: it needs `{server.conflict}`"
    result = "does not start with either command" if server.broken else "same answers"
    if server.anonymous != 200:
        result = "same refusal of callers without a token"
    return f"{result}. {server.note}" if server.note else result


def _differences() -> str:
    return "\n".join(f"- {each.reason}" for each in DIFFERENCES)


def _frameworks() -> str:
    lines = ["| framework | packages | progress | asks the user |  |", "| --- | --- | --- | --- | --- |"]
    for each in FRAMEWORKS:
        signs = ("✓" if supported else "–" for supported in (each.progress, each.asked))
        lines.append(f"| {each.name} | {_packages(each)} | {' | '.join(signs)} | {each.note} |")
    return "\n".join(lines)


def _packages(framework: Framework) -> str:
    first, *others = framework.requirements
    if first == NODE:
        return ", ".join(f"`{name}` {_NODE[name]}" for name in others)
    return ", ".join(map(_versioned, framework.requirements))


def _versioned(requirement: str) -> str:
    name, _, version = requirement.partition("==")
    return f"`{name}` {version}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
