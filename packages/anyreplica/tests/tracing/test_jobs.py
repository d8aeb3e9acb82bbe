"""Spans of jobs: one for each attempt, in the worker's process, linked to the submission."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Server
from tests.jobs.queue import Jobs, Queue, queue
from tests.replicas import RedisServer
from tests.tracing.calls import Caller, call
from tests.tracing.collector import Collector, Span

pytestmark = pytest.mark.needs("redis")


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Queue]:
    """A replica and a worker, both with traces."""
    folder = tmp_path_factory.mktemp("traced-jobs")
    with RedisServer(folder / "redis.log") as redis, queue(folder, redis, **collector.settings) as made:
        for server in made.start([(), ("worker",)], False):
            server.wait_ready()
        yield made


@pytest.fixture(scope="module")
def replica(queued: Queue) -> Server:
    """The replica."""
    return queued.started[0]


def attempts(collector: Collector, identity: str, count: int) -> list[Span]:
    """Return the spans of a job's attempts, the first one first."""
    attempt: Callable[[Span], bool] = lambda span: span["attributes"].get("job.id") == identity  # noqa: E731
    found = collector.find(attempt, f"{count} attempts of job {identity}", count)
    return sorted(found, key=lambda span: int(span["attributes"]["job.attempt"]))


def test_an_attempt_is_linked_to_its_submission(replica: Server, collector: Collector, tmp_path: Path) -> None:
    """The span of an attempt is in its own trace and links to the span of the submission."""
    caller = Caller()
    arguments = {"job": "nap", "arguments": {"seconds": 0.1, "mark": str(tmp_path / "mark")}}
    params = {"name": "submit_job", "arguments": arguments}
    reply = call(replica.url, "handshake", "tools/call", params, header=caller.traceparent).json()
    (span,) = attempts(collector, reply["result"]["structuredContent"]["id"], 1)
    (submission,) = [each for each in collector.trace(caller.trace) if each["name"] == "tools/call submit_job"]
    assert (span["name"], span["kind"], span["status"]) == ("job nap", "CONSUMER", "UNSET")
    assert span["links"] == [f"{caller.trace}-{submission['id']}"]
    assert span["trace"] != caller.trace


def test_each_attempt_has_a_span(queued: Queue, replica: Server, collector: Collector, tmp_path: Path) -> None:
    """Each attempt has a span, marked if it failed, that links to the submission; the log has the trace's id."""
    jobs = Jobs(replica.url)
    queued.callers.append(jobs)
    caller = Caller()
    jobs.client.headers["traceparent"] = caller.traceparent
    identity = jobs.submit("fails_at_first", times=1, mark=str(tmp_path / "mark"))
    assert jobs.wait(identity)["status"] == "completed"
    spans = attempts(collector, identity, 2)
    assert [span["status"] for span in spans] == ["ERROR", "UNSET"]
    assert spans[0]["attributes"]["error.type"] == "ValueError"
    assert [event["name"] for event in spans[0]["events"]] == ["exception"]
    (submission,) = [span for span in collector.trace(caller.trace) if span["name"] == "POST /jobs"]
    assert {link for span in spans for link in span["links"]} == {f"{caller.trace}-{submission['id']}"}
    assert spans[0]["trace"] in queued.started[1].output
