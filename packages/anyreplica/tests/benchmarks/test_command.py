"""The exit code of a study, and what the study prints."""

import pytest

from benchmarks.command import Missing, Run, Script, main
from benchmarks.load import LoadError
from benchmarks.study import Table
from tests.benchmarks.example import TABLE

_GOOD = Table(TABLE.name, TABLE.title, TABLE.columns, TABLE.rows[:1])
_MISSED = Table(TABLE.name, TABLE.title, TABLE.columns, TABLE.rows[:2])


@pytest.mark.parametrize(
    ("found", "arguments", "code", "said"),
    [
        (_GOOD, ["--quick", "--check"], 0, "1 round. Quick run: the figures are rough."),
        (_GOOD, ["--check"], 0, "19.6 (18–22)"),
        (_MISSED, [], 0, "✗ missed: HTTP | TCP: 0.214, target 0.2"),
        (_MISSED, ["--check"], 1, "✗ missed: HTTP | TCP: 0.214, target 0.2"),
        (Missing("wrk is not installed"), [], 2, "example: wrk is not installed\n"),
        (LoadError("no reply"), [], 3, "✗ failed: no reply\n"),
        (TABLE, [], 3, "✗ failed: a broken one: wrong reply: HTTP 500 <b>"),
        (TABLE, [], 3, "19.6 (18–22)"),
    ],
)
def test_the_exit_code(
    capsys: pytest.CaptureFixture[str], found: Table | Exception, arguments: list[str], code: int, said: str
) -> None:
    """The exit code says whether there is a result. Only `--check` changes it because of a missed target."""

    def measure(_: Run) -> list[Table]:
        if isinstance(found, Exception):
            raise found
        return [found]

    script = Script("example", "", rounds=(1, 4), seconds=(0.5, 2), packages=(), measure=measure, pinned=False)
    assert main(script, arguments) == code
    assert said in "".join(capsys.readouterr())
