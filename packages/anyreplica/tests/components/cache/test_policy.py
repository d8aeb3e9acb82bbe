"""Tests of the cache policy that an author sets, and of invalid policies."""

from pathlib import Path

import pytest

from anyreplica.components.cache.policy import CachePolicy, policy_of
from tests.starts import start


def test_a_policy() -> None:
    """The defaults are safe: each caller has a separate result, and stale results are not served."""
    assert policy_of({"cache": {"ttl": 60}}) == CachePolicy(ttl=60.0, scope="caller", stale=0.0)
    assert policy_of({"other": 1}) is None
    assert policy_of(None) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('@tool(meta={"cache": {"ttl": 0}})\nasync def f() -> int: return 1', "cache.ttl: Input should be greater"),
        ('@tool(meta={"cache": {}})\nasync def f() -> int: return 1', "cache.ttl: Field required"),
        ('@tool(meta={"cache": 60})\nasync def f() -> int: return 1', "cache: Input should be"),
        ('@tool(meta={"cache": {"ttl": 1, "scope": "all"}})\nasync def f() -> int: return 1', "cache.scope: Input"),
        ('@tool(meta={"cache": {"ttl": 1, "tll": 2}})\nasync def f() -> int: return 1', "cache.tll: Extra inputs"),
        (
            '@tool(meta={"cache": {"ttl": 1}})\nasync def f(ctx: Context) -> int: return 1',
            "cannot have parameters for Context",
        ),
        ('@tool(meta={"cache": {"ttl": 1}})\nasync def f() -> Image: ...', "a cached tool must return a type that can"),
    ],
)
def test_an_invalid_policy_stops_the_start(tmp_path: Path, source: str, said: str) -> None:
    """`check` refuses an invalid cache policy, with one line that has the function's file and line."""
    imports = "from fastmcp import Context\nfrom fastmcp.tools import tool\nfrom fastmcp.utilities.types import Image\n"
    (tmp_path / "odd.py").write_text(f"{imports}{source}\n")
    done = start("check", MCP_COMPONENTS="odd", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "odd.py:4: f: " in line
    assert said in line
