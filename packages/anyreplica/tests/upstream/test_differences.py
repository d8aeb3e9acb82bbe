"""Tests of the comparison with FastMCP's own tests. `make test-fastmcp` runs these tests themselves."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from upstream import differences
from upstream.differences import Difference

_KNOWN = [
    Difference(kind="difference", what="One reason.", tests=("tests/test_a.py::test_x[*]", "tests/test_a.py::test_y")),
    Difference(kind="test", what="Another reason.", tests=("tests/test_b.py::*",), modes=("full",)),
]


def test_a_difference_that_the_list_does_not_have_is_unexpected() -> None:
    """A pattern means its brackets literally, and `*` stands for any text."""
    differing = ["tests/test_a.py::test_x[1-a]", "tests/test_a.py::test_x", "tests/test_b.py::test_z"]
    assert differences.unexpected(differing, _KNOWN) == ["tests/test_a.py::test_x"]


def test_an_entry_of_a_test_that_passes_is_stale() -> None:
    """One passing test makes its pattern stale. After a run of all tests, so does a pattern without a difference."""
    passing, differing = ["tests/test_a.py::test_x[2]"], ["tests/test_a.py::test_x[1]", "tests/test_b.py::test_z"]
    assert differences.stale(passing, differing, _KNOWN, whole=False) == ["tests/test_a.py::test_x[*]"]
    assert differences.stale([], differing, _KNOWN, whole=False) == []
    assert differences.stale([], differing, _KNOWN, whole=True) == ["tests/test_a.py::test_y"]


@pytest.mark.parametrize(
    "wrong",
    [
        'kind = "other"\nwhat = "A reason."\ntests = ["a"]',
        'kind = "test"\nwhat = ""\ntests = ["a"]',
        'kind = "test"\nwhat = "A reason."\ntests = []',
        'kind = "test"\nwhat = "A reason."\ntests = ["a"]\nmode = ["off"]',
    ],
)
def test_an_entry_without_a_reason_or_with_a_wrong_key_is_an_error(tmp_path: Path, wrong: str) -> None:
    """Each entry has a known kind, a reason and at least one test, and no other keys."""
    file = tmp_path / "differences.toml"
    file.write_text(f"[[difference]]\n{wrong}\n")
    with pytest.raises(ValidationError):
        differences.load(file)


def test_no_pattern_is_listed_twice() -> None:
    """A test has one reason for each value of HANDSHAKE_SESSIONS."""
    found = [
        (pattern, each.suite, mode) for each in differences.load() for pattern in each.tests for mode in each.modes
    ]
    assert len(found) == len(set(found))


def test_the_page_shows_each_entry() -> None:
    """The page in the documentation names the reason and the tests of each entry of the list."""
    page = (Path(__file__).parents[4] / "docs" / "explanation" / "differences.md").read_text()
    assert page == differences.page()
    for each in differences.load():
        assert each.what in page
