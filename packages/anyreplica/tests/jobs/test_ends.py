"""Tests of the ways in which jobs end: time limit, cancellation, failure and expiry."""

from pathlib import Path

import pytest

from conftest import until
from tests.jobs.queue import Jobs, Queue, lines, wait_for_begin

pytestmark = pytest.mark.needs("redis")

FAILED = "The job failed; the server's log has the reason."
"""The error of a job whose exception is not meant for clients."""


def test_a_job_that_takes_too_long_is_stopped(jobs: Jobs, mark: Path) -> None:
    """A job fails after its time limit, and the worker stops its code."""
    status = jobs.wait(jobs.submit("overlong", mark=str(mark)))
    assert (status["status"], status["error"]) == ("failed", "Timeout: the job did not finish within 0.5 s.")
    assert lines(mark) == ["stopped"]


def test_a_running_job_is_cancelled(replicas: tuple[Jobs, Jobs], mark: Path) -> None:
    """Another replica can cancel a running job, which stops its code. A second cancellation changes nothing."""
    jobs, other = replicas
    identity = jobs.submit("nap", seconds=60, mark=str(mark))
    wait_for_begin(mark)
    assert other.client.delete(f"/jobs/{identity}").json()["status"] == "cancelled"
    until(lambda: lines(mark) == ["begun", "cancelled"], "the job's code has been cancelled")
    assert jobs.client.delete(f"/jobs/{identity}").json()["status"] == "cancelled"
    reply = jobs.client.get(f"/jobs/{identity}/result")
    assert (reply.status_code, reply.json()["status"]) == (409, "cancelled")


def test_a_job_that_raises_is_retried(jobs: Jobs, shared: Queue, tmp_path: Path) -> None:
    """A worker retries a job that raises, up to the job's limit. Only the log contains the exception's text."""
    status = jobs.wait(jobs.submit("fails_at_first", times=1, mark=str(tmp_path / "one")))
    assert (status["status"], status["attempts"]) == ("completed", 2)
    status = jobs.wait(jobs.submit("fails_at_first", times=9, mark=str(tmp_path / "two")))
    assert (status["status"], status["attempts"], status["error"]) == ("failed", 3, FAILED)
    assert any("hunter2" in server.output for server in shared.started)


@pytest.mark.parametrize(
    ("job", "params", "error"),
    [
        ("tells", {"why": "no such table"}, "no such table"),
        ("exits", {}, FAILED),
        ("unsayable", {}, "no file ?" + 491 * "x"),
        ("cancels_itself", {}, "The job cancelled itself."),
        ("infinity", {}, "The job returned a value that cannot be written as JSON: Infinity is not a JSON number"),
        ("text_of", {"length": 2000}, "Job result too large: 2002 bytes, the limit is 1000 (JOBS_MAX_RESULT_BYTES)."),
    ],
)
def test_a_failed_job_has_an_error(jobs: Jobs, job: str, params: dict[str, object], error: str) -> None:
    """The status of a failed job contains an error text that clients may see, and the worker continues."""
    status = jobs.wait(jobs.submit(job, **params))
    assert (status["status"], status["error"]) == ("failed", error)
    assert jobs.wait(jobs.submit("text_of", length=1))["status"] == "completed"


def test_a_finished_job_expires(jobs: Jobs) -> None:
    """A finished job disappears after the time that its author has set, also from the list."""
    identity = jobs.submit("briefly_kept")
    jobs.wait(identity)
    until(lambda: jobs.client.get(f"/jobs/{identity}/status").status_code == 404, "the job no longer exists")
    assert identity not in jobs.client.get("/jobs").text
