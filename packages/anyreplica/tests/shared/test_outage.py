"""Tests of the policies for work that needs Redis while Redis cannot be reached."""

import logging

import pytest
from redis.exceptions import ConnectionError as LostError

from anyreplica.http.refusal import Refused
from anyreplica.shared.outage import Outage


@pytest.fixture
def outage() -> Outage:
    """A consequence of an outage."""
    return Outage(logging.getLogger("anyreplica.test"), "nothing is stored")


def lost() -> None:
    """Fail as a command to a lost Redis does."""
    raise LostError("Connection refused")


def test_required_work_fails_with_its_own_error(outage: Outage) -> None:
    """The error gets the reason. Errors of other kinds stay as they are."""
    with pytest.raises(Refused, match="Connection refused"), outage.required(Refused.retry_later):
        lost()
    assert outage.is_on
    with pytest.raises(ValueError, match="own"), outage.required(Refused.retry_later):
        raise ValueError("own")


def test_best_effort_goes_on(outage: Outage) -> None:
    """The block ends at the failed command, and the code after it runs."""
    done = []
    with outage.best_effort():
        lost()
        done.append("inside")
    done.append("after")
    assert done == ["after"]
    assert outage.is_on


def test_an_outage_has_one_line_in_the_log_and_its_end_another(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    """A busy replica that loses Redis does not fill its log."""
    for _ in range(3):
        with outage.best_effort():
            lost()
    for _ in range(3):
        with outage.best_effort():
            pass
    assert [record.getMessage() for record in caplog.records] == [
        "Redis can't be reached: nothing is stored: Connection refused",
        "Redis can be reached again. Until now: nothing is stored",
    ]
    assert not outage.is_on


def test_a_block_that_began_before_the_outage_does_not_end_it(outage: Outage) -> None:
    """For example, an event stream that was open before the outage may end during the outage."""
    with outage.best_effort(), outage.best_effort():
        lost()
    assert outage.is_on
