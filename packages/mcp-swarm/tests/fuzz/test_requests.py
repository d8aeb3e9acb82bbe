"""Damaged requests at a real replica: each is refused or answered, and nothing is left of it.

The same inputs come with each run. `FUZZ_SEED=2 python -m pytest tests/fuzz` makes others, and
`python -m tests.fuzz --inputs 100000 --seed 2` many more.
"""

import os

import pytest

from tests.fuzz.battery import GROWTH_MB, Battery, Report
from tests.fuzz.replica import running

INPUTS = int(os.environ.get("FUZZ_INPUTS", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What came of them all."""
    folder = tmp_path_factory.mktemp("fuzz")
    with running(folder) as replica:
        found = Battery(replica).run(INPUTS, SEED)
    for number, each in enumerate(found.found.values(), 1):
        (folder / f"{number}.bin").write_bytes(each.data)
    return found


def test_no_input_finds_a_mistake(report: Report) -> None:
    """No 5xx, no traceback in a reply or in the log, no whole request without a reply, valid calls in between."""
    assert [f"{each.what}: {each.data[:2000]!r}" for each in report.found.values()] == []
    assert report.inputs >= INPUTS


def test_inputs_get_as_far_as_they_should(report: Report) -> None:
    """Past the parser, the guard, and the checks of messages; else this would test little."""
    answered = report.statuses[200] + report.statuses[202]
    assert answered > 0.1 * report.inputs
    assert {400, 401, 404, 405, 406, 413, 415, 421, 422, 431} <= report.statuses.keys()


def test_memory_does_not_grow(report: Report) -> None:
    """Once the replica has its caches and its memory's usual gaps, for which the first half of the inputs is enough."""
    assert report.growth_mb < GROWTH_MB, report.memory


def test_no_file_stays_open(report: Report) -> None:
    """No connection, either."""
    assert report.files[1] <= report.files[0]


def test_all_of_it_is_in_the_audit_log(report: Report) -> None:
    """Which holds to its end."""
    assert (report.stopped, report.audit) == (0, "")
