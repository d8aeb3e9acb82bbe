"""Tests of `/jobs`."""

from datetime import datetime
from pathlib import Path

import pytest

from conftest import StartServer
from tests.calls import call, text
from tests.jobs.queue import Jobs, Queue
from tests.replicas import RedisServer

pytestmark = pytest.mark.needs("redis")


@pytest.fixture(scope="module")
def tenants(shared: Queue) -> tuple[Jobs, Jobs]:
    """Two callers, each at a replica that accepts only that caller."""
    one, other = (shared.replica(AUTH_ENABLED="true", AUTH_TOKEN=token) for token in ("one", "other"))
    return one, other


def test_another_replica_answers_requests_for_a_job(replicas: tuple[Jobs, Jobs], tmp_path: Path) -> None:
    """Another replica shows a job's progress, times, estimated end and result."""
    here, there = replicas
    reply = here.post("nap", {"seconds": 2, "mark": str(tmp_path / "mark")})
    assert reply.status_code == 202
    assert there.client.get(reply.headers["Location"]).status_code == 200
    identity = reply.json()["id"]
    waiting = there.client.get(f"/jobs/{identity}/result")
    assert (waiting.status_code, waiting.headers["Retry-After"]) == (202, "1")
    running = there.wait(identity, "running")
    while not running["progress"]:
        running = there.status(identity)
    assert 0 < running["progress"] < 100
    assert running["message"] == f"step {running['progress']:g}"
    times = [running["submitted_at"], running["started_at"], running["estimated_completion_at"]]
    assert times == sorted(times)
    assert all(datetime.fromisoformat(time).utcoffset() is not None for time in times)
    done = there.wait(identity)
    assert (done["status"], done["progress"], done["attempts"], done["error"]) == ("completed", 100, 1, None)
    assert done["finished_at"] >= done["started_at"]
    assert there.result(identity) == "slept"


def test_a_ready_replica_has_imported_the_queue(start_server: StartServer, redis_server: RedisServer) -> None:
    """A ready replica has imported the queue's modules, because the import takes seconds on a busy node."""
    server = start_server(
        within=["env"],  # This server must not be forked from a process that has imported everything.
        JOBS_URL=redis_server.url,
        MCP_COMPONENTS="server,tests.packs.imported",
    )
    assert text(call(server.url, "imported", {"name": "anyreplica.features.jobs.worker"})) == "true"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ('{"job": "typed", "params": {"count": "many", "names": []}}', 422, "count: Input should be a valid integer"),
        ('{"job": "typed", "params": {"count": 1}}', 422, "names: Missing required"),
        ('{"job": "typed", "params": {"count": 1, "names": [], "x": 1}}', 422, "x: Unexpected keyword argument"),
        ('{"job": "unknown"}', 422, "There is no job named 'unknown'"),
        ('{"job": 1}', 400, "job: Input should be a valid string"),
        ('{"params": {}}', 400, "job: Field required"),
        ('{"job": "typed", "args": {}}', 400, "args: Extra inputs are not permitted"),
        ("[]", 400, "body: Input should be an object"),
        ("", 400, "body: Invalid JSON"),
        ("{", 400, "body: Invalid JSON"),
    ],
)
def test_an_invalid_submission_is_refused(jobs: Jobs, body: str, status: int, said: str) -> None:
    """A replica refuses an invalid submission with the reason."""
    reply = jobs.client.post("/jobs", content=body)
    assert reply.status_code == status, reply.text
    assert said in reply.json()["message"]


def test_a_body_beyond_the_limit_is_refused(shared: Queue) -> None:
    """A replica refuses a submission beyond MAX_BODY_BYTES with 413."""
    jobs = shared.replica(MAX_BODY_BYTES="1024")
    assert jobs.post("tells", {"why": "x" * 2000}).status_code == 413


def test_a_repeat_with_the_same_key_makes_no_second_job(replicas: tuple[Jobs, Jobs]) -> None:
    """A repeat with the same key returns the first job on any replica. Another submission with that key gets 409."""
    here, there = replicas
    first = here.post("text_of", {"length": 2}, key="once")
    again = there.post("text_of", {"length": 2}, key="once")
    assert again.json()["id"] == first.json()["id"]
    here.wait(first.json()["id"])
    assert there.post("text_of", {"length": 2}, key="once").json()["status"] == "completed"
    other = there.post("text_of", {"length": 3}, key="once")
    assert (other.status_code, other.json()["error"]) == (409, "conflict")


@pytest.mark.smoke
def test_a_job_is_its_owners_only(tenants: tuple[Jobs, Jobs]) -> None:
    """For all callers except its owner a job does not exist, and each owner has separate idempotency keys."""
    one, other = tenants
    identity = one.post("text_of", {"length": 1}, key="mine").json()["id"]
    one.wait(identity)
    missing = other.client.get("/jobs/no-such-job/status")
    for method, path in (("GET", "/status"), ("GET", "/result"), ("DELETE", "")):
        reply = other.client.request(method, f"/jobs/{identity}{path}")
        assert (reply.status_code, reply.json()) == (missing.status_code, missing.json()) == (404, missing.json())
    assert identity not in [job["id"] for job in other.client.get("/jobs").json()["jobs"]]
    assert other.client.get("/jobs", params={"cursor": identity}).status_code == 422
    assert other.post("text_of", {"length": 1}, key="mine").json()["id"] != identity
    assert one.status(identity)["status"] == "completed"


def test_a_wrong_token_is_refused(tenants: tuple[Jobs, Jobs]) -> None:
    """The `/jobs` routes refuse a wrong token with 401, like `/mcp`."""
    for method, path in (("GET", "/jobs"), ("POST", "/jobs"), ("GET", "/jobs/x/status"), ("DELETE", "/jobs/x")):
        reply = tenants[0].client.request(method, path, headers={"Authorization": "Bearer wrong"})
        assert reply.status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"), [({"Origin": "https://elsewhere.example"}, 403), ({"Host": "elsewhere.example"}, 421)]
)
def test_a_page_in_a_browser_submits_no_jobs(jobs: Jobs, headers: dict[str, str], status: int) -> None:
    """A web page of another origin or host can neither submit nor read jobs."""
    for method in ("POST", "GET"):
        assert jobs.client.request(method, "/jobs", headers=headers).status_code == status


def test_an_owners_jobs_are_listed_by_page(shared: Queue) -> None:
    """The list shows each job once, from new to old, also if new jobs arrive meanwhile. Ids have 192 random bits."""
    jobs = shared.replica(AUTH_ENABLED="true", AUTH_TOKEN="lister")
    made = [jobs.submit("text_of", length=number) for number in range(7)]
    assert [len(each) for each in set(made)] == [32] * 7
    page = jobs.client.get("/jobs", params={"limit": 3}).json()
    found = page["jobs"]
    while page["next_cursor"]:
        jobs.submit("text_of", length=1)
        page = jobs.client.get("/jobs", params={"limit": 3, "cursor": page["next_cursor"]}).json()
        found += page["jobs"]
    assert [job["id"] for job in found] == made[::-1]


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "1.5", "", "٣", "9" * 5000])
def test_a_page_has_1_to_500_jobs(jobs: Jobs, limit: str) -> None:
    """A page of the list has 1 to 500 jobs. A replica refuses every other limit."""
    assert jobs.client.get("/jobs", params={"limit": limit}).status_code == 422
