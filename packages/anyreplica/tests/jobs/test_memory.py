"""Tests of jobs without Redis, in a single replica."""

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from anyreplica import Settings
from anyreplica.components.job import JobMeta, make_job
from anyreplica.features.jobs.service import JobService
from conftest import StartServer
from tests.calls import call, legacy, text
from tests.jobs.queue import PACK, Jobs, lines
from tests.starts import start


def test_one_replica_runs_jobs_by_itself(start_server: StartServer, tmp_path: Path) -> None:
    """A single replica without Redis runs, retries, lists and cancels jobs, and supports idempotency keys."""
    mark = tmp_path / "mark"
    server = start_server(MCP_COMPONENTS=PACK)
    jobs = Jobs(server.url)
    with jobs.client:
        identity = jobs.submit("typed", count=1, names=["a"])
        jobs.wait(identity)
        assert jobs.result(identity) == {"a": 2.0}
        running = jobs.submit("nap", seconds=60, mark=str(mark))
        jobs.wait(running, "running")
        first, again = (jobs.post("exits", key="k").json()["id"] for _ in range(2))
        assert first == again
        assert jobs.wait(first)["error"] == "The job failed; the server's log has the reason."
        page = jobs.client.get("/jobs", params={"limit": 2}).json()
        assert [job["id"] for job in page["jobs"]] == [first, running]
        rest = jobs.client.get("/jobs", params={"cursor": page["next_cursor"]}).json()["jobs"]
        assert [job["id"] for job in rest] == [identity]
        assert jobs.client.delete(f"/jobs/{running}").json()["status"] == "cancelled"
        assert jobs.wait(jobs.submit("fails_at_first", times=1, mark=str(tmp_path / "other")))["attempts"] == 2
    assert lines(mark)[:2] == ["begun", "cancelled"]
    assert server.stop() == 0


def test_a_replica_with_a_running_job_ends_in_time(start_server: StartServer, tmp_path: Path) -> None:
    """A stopping replica stops its running job. The job is lost with the replica's memory."""
    server = start_server(MCP_COMPONENTS=PACK, SHUTDOWN_GRACE_SECONDS="1")
    jobs = Jobs(server.url)
    with jobs.client:
        jobs.wait(jobs.submit("nap", seconds=60, mark=str(tmp_path / "mark")), "running")
    assert server.stop() == 0
    assert lines(tmp_path / "mark") == ["begun", "cancelled"]


def test_a_call_that_times_out_returns_the_jobs_id(start_server: StartServer, tmp_path: Path) -> None:
    """With CALL_TIMEOUT_SECONDS below JOBS_WAIT_SECONDS a call returns the job's id."""
    # The call waits for half of this time. The other half is for a busy machine.
    server = start_server(MCP_COMPONENTS=PACK, CALL_TIMEOUT_SECONDS="8", SHUTDOWN_GRACE_SECONDS="1")
    result = call(server.url, "nap", {"seconds": 60, "mark": str(tmp_path / "mark")})
    assert result["structuredContent"]["id"] in text(result)


@pytest.mark.smoke
def test_several_replicas_need_redis_for_jobs(local_url: str, local_replicas: object) -> None:
    """Several replicas without Redis refuse jobs with 503, name the variable to set, and offer no tools of jobs."""
    reply = httpx.post(f"{local_url}/jobs", json={"job": "generate_report"}, verify=False)
    assert reply.status_code == 503
    assert "JOBS_URL" in reply.json()["message"]
    names = [tool["name"] for tool in legacy(local_url, "tools/list").json()["result"]["tools"]]
    assert "submit_job" not in names
    assert "generate_report" not in names


def test_the_shipped_jobs_work(start_server: StartServer) -> None:
    """The jobs of the sample work in a single replica without settings."""
    server = start_server()
    report = call(server.url, "generate_report", {"rows": 24_000})["structuredContent"]
    assert [region["region"] for region in report["regions"]] == ["east", "north", "south", "west"]
    assert sum(region["sales"] for region in report["regions"]) == report["rows"] == 24_000
    exported = text(call(server.url, "export_data", {"rows": 2}))
    assert exported == "id,region,month,cents\n0,north,1,0\n1,east,2,7919\n"


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (("worker",), {}, "JOBS_URL=memory://: a worker needs the Redis"),
        (("worker",), {"JOBS_URL": "redis://x", "MCP_COMPONENTS": "tests.packs.timed"}, "these packages have no jobs"),
        ((), {"JOBS_URL": "http://x"}, "JOBS_URL: not a queue; use memory:// or the URL of a Redis"),
        (("check",), {"JOBS_URL": "redis://localhost:abc"}, "JOBS_URL: not a Redis URL"),
        (("worker",), {"JOBS_URL": "redis://localhost:abc"}, "JOBS_URL: not a Redis URL"),
    ],
)
def test_unusable_settings_stop_the_start(arguments: tuple[str, ...], settings: dict[str, str], said: str) -> None:
    """Settings that cannot work for jobs stop the start with one line and exit code 3."""
    done = start(*arguments, **settings)
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("@job\ndef plain(): ...", "plain: @job needs an async function"),
        ("@job(timeout=0)\nasync def f(): ...", "f: timeout=0 must be a finite number of seconds greater than 0"),
        ("@job(retries=-1)\nasync def never(): ...", "never: retries=-1 must be 0 or more"),
        ("@job(name='two')\nasync def f(): ...\n@job\nasync def two(): ...", "job 'two' is already defined at"),
        (
            "@tool\nasync def submit_job(): ...\n@job\nasync def f(): ...",
            "tool 'submit_job' has the name of a job or a job tool; rename the tool",
        ),
        ("@job\nasync def odd(*args: int): ...", "odd: "),
    ],
)
def test_an_invalid_job_stops_the_start(tmp_path: Path, source: str, said: str) -> None:
    """An invalid job stops the start with its file, line and reason."""
    (tmp_path / "odd_jobs.py").write_text(f"from fastmcp.tools import tool; from anyreplica import job\n\n\n{source}\n")
    done = start("check", MCP_COMPONENTS="odd_jobs", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    assert said in done.stderr
    assert "odd_jobs.py:4" in done.stderr or "odd_jobs.py:6" in done.stderr


@pytest.mark.parametrize(
    ("mcp_replicas", "replicas_dns", "said"),
    [
        (1, "", ""),
        (2, "", "Jobs are off: 2 replicas need a shared queue; set JOBS_URL=redis://…"),
        (1, "tasks.mcp", "Jobs are off: the replicas of a service need a shared queue; set JOBS_URL=redis://…"),
        (2, "tasks.mcp", "Jobs are off: the replicas of a service need a shared queue; set JOBS_URL=redis://…"),
    ],
)
def test_the_reason_names_no_number_that_may_be_wrong(mcp_replicas: int, replicas_dns: str, said: str) -> None:
    """`docker service scale` changes the number of replicas of a service, but not the setting MCP_REPLICAS."""

    async def report() -> str:
        return "done"

    jobs = {"report": make_job(report, JobMeta(None, None, 0, None))}
    settings = Settings(request_state_keys=SecretStr("0" * 64), mcp_replicas=mcp_replicas, replicas_dns=replicas_dns)
    assert JobService(jobs, settings, "", lambda: None).off == said
