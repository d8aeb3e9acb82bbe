"""Tests of the cache policy that an author sets, and of invalid policies."""

from pathlib import Path

import pytest

from anyreplica.features.cache.policy import CachePolicy, policy_of
from tests.starts import start


def test_a_policy() -> None:
    """The defaults are safe: each caller has a separate result, and stale results are not served."""
    assert policy_of({"cache": {"ttl": 60}}) == CachePolicy(ttl=60.0, scope="caller", stale=0.0)
    assert policy_of({"other": 1}) is None
    assert policy_of(None) is None


@pytest.mark.parametrize(
    ("policy", "function", "said"),
    [
        ({"ttl": 0}, "f() -> int", "cache.ttl: Input should be greater"),
        ({}, "f() -> int", "cache.ttl: Field required"),
        (60, "f() -> int", "cache: Input should be"),
        ({"ttl": 1, "scope": "all"}, "f() -> int", "cache.scope: Input"),
        ({"ttl": 1, "tll": 2}, "f() -> int", "cache.tll: Extra inputs"),
        ({"ttl": 1}, "f(ctx: Context) -> int", "cannot have parameters for Context"),
        ({"ttl": 1}, "f() -> Image", "a cached tool must return a type that can"),
    ],
)
def test_an_invalid_policy_stops_the_start(tmp_path: Path, policy: object, function: str, said: str) -> None:
    """`check` refuses an invalid cache policy, with one line that has the function's file and line."""
    imports = "from fastmcp import Context\nfrom fastmcp.tools import tool\nfrom fastmcp.utilities.types import Image\n"
    (tmp_path / "odd.py").write_text(f'{imports}@tool(meta={{"cache": {policy}}})\nasync def {function}: ...\n')
    done = start("check", MCP_COMPONENTS="odd", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "odd.py:4: f: " in line
    assert said in line
