"""The list of the tests that fail with anyreplica and pass with FastMCP's own HTTP app, and the page that shows it."""

import fnmatch
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FILE = Path(__file__).parent / "differences.toml"
_TITLES = {
    "difference": "A server behaves differently",
    "test": "Only a test notices",
}
_INTRODUCTION = """\
# What differs from `fastmcp run`

A server that runs with `fastmcp run` runs with `anyreplica run`, unchanged. This page lists what is different, and why.

CI runs FastMCP's own tests twice: with FastMCP's HTTP app, and with anyreplica. It fails if a test passes with
FastMCP's HTTP app and fails with anyreplica, unless this page has the reason. It also fails if such a test passes
again. The tests run with four settings that change a default:

- `FASTMCP_MASK_ERROR_DETAILS=false`. FastMCP by default shows clients the text of every exception, and so does the MCP
  SDK in the handshake protocol. anyreplica does not: see [Any FastMCP
  server](../guides/fastmcp-server.md#what-is-different).
- `FIRST_EVENT_SECONDS=0.1`. FastMCP sends the head of a reply at once. anyreplica sends it with the result, or after
  2 s, so that a proxy can repeat a call whose replica is lost. A client that waits less than 2 s for the head of a slow
  call loses the connection of that call.
- `FORWARD_HEADERS`. FastMCP forwards all headers of a caller to proxied servers and APIs. anyreplica forwards only
  those that the operator names.
- `READINESS_PATH`, which moves a probe. The server of one test has a custom route at `/readyz`, the path of this probe.
  A replica does not start if a custom route has the path of a probe.

CI also runs those tests of the MCP Python SDK that use a server over HTTP, with the SDK's HTTP app and with anyreplica.
The page marks them with *SDK*. There, each test chooses by `stateless_http` whether clients have sessions.
Some options of `http_app()` become settings, because anyreplica does not call `http_app()`: `allowed_hosts`,
`allowed_origins` and `host_origin_protection` become `ALLOWED_HOSTS` and `ALLOWED_ORIGINS`, `json_response=False`
becomes `JSON_RESPONSE=false`, and `stateless_http=True` (also as a setting of FastMCP) becomes
`HANDSHAKE_SESSIONS=off`.

The column *sessions* says for which value of [`HANDSHAKE_SESSIONS`](../guides/sessions.md) a line holds.

<!-- This page is generated from packages/anyreplica/upstream/differences.toml. Edit that file and run `make
reference`. -->
"""


class Difference(BaseModel):
    """One reason why tests fail.

    Attributes:
        kind: "difference": a server behaves differently. "test": only a test notices.
        what: one line for an author of a server: what is different, and why.
        tests: patterns of the ids of tests. `*` stands for any text.
        modes: the values of HANDSHAKE_SESSIONS with which the tests fail.
        suite: the suite of the tests.
        sometimes: whether the tests fail in some runs only, because they depend on the speed of the machine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["difference", "test"]
    what: str = Field(min_length=1, pattern=r"^[^|\n]+$")
    tests: tuple[str, ...] = Field(min_length=1)
    modes: tuple[Literal["off", "full"], ...] = ("off", "full")
    suite: Literal["fastmcp", "sdk"] = "fastmcp"
    sometimes: bool = False

    def has(self, test: str) -> bool:
        """Return whether a test fails for this reason."""
        return any(_matches(test, pattern) for pattern in self.tests)


def load(file: Path = FILE) -> list[Difference]:
    """Read the list.

    Raises:
        pydantic.ValidationError: an entry is incomplete or has a wrong value.
    """
    return [Difference.model_validate(entry) for entry in tomllib.loads(file.read_text())["difference"]]


def unexpected(differing: Iterable[str], known: Collection[Difference]) -> list[str]:
    """Return the tests that differ and that the list does not have."""
    return sorted(test for test in differing if not any(each.has(test) for each in known))


def stale(
    passing: Collection[str], differing: Collection[str], known: Iterable[Difference], *, whole: bool
) -> list[str]:
    """Return the patterns of the list that match a test that passes.

    Args:
        passing: the tests that pass.
        differing: the tests that differ.
        known: the list.
        whole: whether all tests have run. If so, also return the patterns that match no test that differs.
    """
    patterns = [pattern for each in known if not each.sometimes for pattern in each.tests]
    return [
        pattern
        for pattern in patterns
        if any(_matches(test, pattern) for test in passing)
        or (whole and not any(_matches(test, pattern) for test in differing))
    ]


def page() -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION]
    for kind, title in _TITLES.items():
        rows = [each for each in load() if each.kind == kind]
        lines = ["| what differs, and why | sessions | tests |", "| --- | --- | --- |"]
        lines += [f"| {each.what} | {_modes(each)} | {_tests(each)} |" for each in rows]
        parts.append("\n".join((f"## {title}\n", *lines, "")))
    return "\n".join(parts)


def _modes(each: Difference) -> str:
    return "all" if len(each.modes) == 2 else ", ".join(f"`{mode}`" for mode in each.modes)


def _tests(each: Difference) -> str:
    prefix = "" if each.suite == "fastmcp" else "SDK: "
    return "<br>".join(f"{prefix}`{pattern.removeprefix('tests/')}`".replace("|", "\\|") for pattern in each.tests)


def _matches(test: str, pattern: str) -> bool:
    # fnmatch would read the brackets of a parametrized test as a set of characters.
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))
