"""Tests with damaged requests: a real replica refuses or answers each request, and keeps no memory or file for it.

`FUZZ_SEED=2 FUZZ_INPUTS=100000 python -m pytest tests/fuzz/test_requests.py` uses other and more inputs. The folder of
the test has the first input of each kind of fault: `nc 127.0.0.1 8000 < 1.bin` sends it again.
"""

import os

import pytest

from tests.fuzz.battery import GROWTH_MB, Battery, Report
from tests.fuzz.replica import running

INPUTS = int(os.environ.get("FUZZ_INPUTS", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600 + INPUTS / 50)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a run with all inputs."""
    folder = tmp_path_factory.mktemp("fuzz")
    with running(folder) as replica:
        found = Battery(replica).run(INPUTS, SEED)
    for number, each in enumerate(found.found.values(), 1):
        (folder / f"{number}.bin").write_bytes(each.data)
    return found


def test_no_input_causes_a_failure(report: Report) -> None:
    """No input causes a 5xx (except 503 with Retry-After), a traceback, a missing reply or a failed valid call."""
    assert [f"{each.what}: {each.data[:2000]!r}" for each in report.found.values()] == []
    assert report.inputs >= INPUTS


def test_enough_inputs_pass_the_first_checks(report: Report) -> None:
    """Enough inputs pass the parser, the authenticator and the checks of messages to test the whole server."""
    answered = report.statuses[200] + report.statuses[202]
    assert answered > 0.1 * report.inputs
    assert {400, 401, 404, 405, 406, 413, 415, 421, 422, 431} <= report.statuses.keys()


def test_nothing_is_left(report: Report) -> None:
    """In the second half of the run, when the caches are full, memory grows by less than 10 MB. No file stays open.

    The audit log is intact, and the replica exits with 0.
    """
    assert report.growth_mb < GROWTH_MB, report.memory
    assert report.files[1] <= report.files[0]
    assert (report.stopped, report.audit) == (0, "")
