"""Tests of the progress of a deployment: which services have failed, and what the lines say."""

from types import SimpleNamespace
from typing import Any

import pytest

from anyreplica.deploy.progress import DeployProgress
from anyreplica.deploy.running import DockerCommandError, RunningService, SwarmTask, newest_of_each_error

OUTCOMES = {
    "paused": "paused it",
    "rollback_started": "is rolling it back",
    "rollback_paused": "could not roll it back",
    "rollback_completed": "rolled it back",
}


def service(state: str = "", began: str = "", replicas: int = 2) -> RunningService:
    """Return the service `mcp` with the state of its last update; without a state, it has had none."""
    update = {"UpdateStatus": {"StartedAt": began, "State": state}} if state else {}
    spec = {"Mode": {"Replicated": {"Replicas": replicas}}, "UpdateConfig": {"Monitor": 12_000_000_000}}
    found: dict[str, Any] = {"ID": "mcp", "Spec": spec, **update}
    return RunningService("mcp", found)


def task(name: str, state: str) -> SwarmTask:
    """Return a task of the service."""
    return SwarmTask(name, "mcp", state, "running", "", "", "")


class Look:
    """The program's looks at a stack that has one service."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, progress: DeployProgress, found: RunningService, *its: SwarmTask) -> dict[str, str]:
        """Look once, and return the services that have failed until now."""
        self._patch.setattr("anyreplica.deploy.progress.running_services", lambda _: {"mcp": found})
        self._patch.setattr("anyreplica.deploy.progress.tasks", lambda _: list(its))
        progress.refresh()
        return progress.failed


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """A function that looks at a stack."""
    return Look(monkeypatch)


def progress_of(*before: RunningService, deployed: str = "mcp") -> DeployProgress:
    """Return the progress of a deployment, after which the task `old` and the services `before` were known."""
    return DeployProgress("shop", {each.name: each for each in before}, {"old"}, {deployed})


@pytest.mark.parametrize("state", OUTCOMES)
def test_a_failed_update_is_noticed(look: Look, capsys: pytest.CaptureFixture[str], state: str) -> None:
    """Each state of a failed update is a failure, also if old tasks run."""
    before = service("completed", "1")
    failed = look(progress_of(before), service(state, "2"), task("old", "running"), task("new", "failed"))
    assert failed == {"mcp": f"The update of mcp failed, and Swarm {OUTCOMES[state]} ({state})."}
    assert f"mcp: the update failed, and Swarm {OUTCOMES[state]}" in capsys.readouterr().out


@pytest.mark.parametrize("state", ["", "updating", "completed"])
def test_other_updates_have_not_failed(look: Look, state: str) -> None:
    """An update that goes on or is complete has not failed, and one failed task among running ones is no failure."""
    its = task("old", "running"), task("new", "failed"), task("next", "starting")
    assert look(progress_of(service()), service(state, "2"), *its) == {}


@pytest.mark.parametrize("state", OUTCOMES)
def test_an_earlier_failure_does_not_count(look: Look, state: str) -> None:
    """The failure of an update before the deployment does not count, nor that of a service which it removes."""
    assert look(progress_of(service(state, "1")), service(state, "1")) == {}
    assert look(progress_of(service(), deployed="worker"), service(state, "2"), task("new", "failed")) == {}


def test_a_failed_update_stays_failed(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the service during the deployment, for example by the autoscaler, does not hide the failure."""
    progress = progress_of(service())
    assert look(progress, service("rollback_completed", "2"))
    assert look(progress, service()) == {
        "mcp": "The update of mcp failed, and Swarm rolled it back (rollback_completed)."
    }

    def no_answer(_: str) -> dict[str, RunningService]:
        raise DockerCommandError("docker service ls: no answer within 60 s.")

    monkeypatch.setattr("anyreplica.deploy.progress.running_services", no_answer)
    progress.refresh()
    assert progress.failed.keys() == {"mcp"}
    with pytest.raises(DockerCommandError):
        progress.read()


def test_tasks_that_fail_before_any_runs_are_noticed(look: Look) -> None:
    """A new service has no state of an update. It has failed if its tasks fail and none of them runs."""
    progress = progress_of()
    assert look(progress, service(), task("a", "starting")) == {}
    assert look(progress, service(), task("a", "failed"), task("b", "starting")) == {
        "mcp": "No task of mcp runs: 1 new task has failed. Swarm starts further tasks."
    }
    assert look(progress, service(), task("a", "failed"), task("b", "rejected"), task("c", "pending")) == {
        "mcp": "No task of mcp runs: 2 new tasks have failed. Swarm starts further tasks."
    }
    assert look(progress, service(), task("a", "failed"), task("b", "failed"), task("c", "running")) == {}
    assert look(progress, service(), task("old", "failed"), task("c", "starting")) == {}, "it failed before"


@pytest.mark.parametrize(
    ("state", "replicas", "said"),
    [
        ("", 2, "mcp: 2 of 2 new tasks running; docker watches them for 12 s"),
        ("updating", 2, "mcp: 2 of 2 new tasks running; Swarm watches them for 12 s"),
        ("updating", 3, "mcp: 2 of 3 new tasks running"),
        ("completed", 2, "mcp: 2 of 2 new tasks running"),
    ],
)
def test_a_line_says_that_new_tasks_are_watched(
    look: Look, capsys: pytest.CaptureFixture[str], state: str, replicas: int, said: str
) -> None:
    """When all tasks run, the deployment is not over: in an update Swarm watches them, otherwise docker does."""
    look(progress_of(), service(state, "2", replicas), task("a", "running"), task("b", "running"))
    assert capsys.readouterr().out == f"     0 s  {said}\n"


def test_the_progress_is_never_silent_for_long(
    look: Look, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten seconds without a line, there is one that says what docker waits for."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("anyreplica.deploy.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    progress = progress_of()
    some, all_run = ("running", "starting"), ("running", "running")
    for now, states in (
        (109, ()),
        (110, ()),
        (119, some),
        (128, some),
        (129, some),
        (130, all_run),
        (139, all_run),
        (140, all_run),
    ):
        clock.now = now
        look(progress, service(), *(task(name, state) for name, state in zip("ab", states, strict=False)))
        progress.show_life()
    assert capsys.readouterr().out.splitlines() == [
        "    10 s  no new task yet",
        "    19 s  mcp: 1 of 2 new tasks running",
        "    29 s  still waiting for the new tasks of mcp",
        "    30 s  mcp: 2 of 2 new tasks running; docker watches them for 12 s",
        "    40 s  docker still watches the new tasks",
    ]


def test_each_error_of_a_service_is_explained_once() -> None:
    """The newest task of each error explains it, so a repeated error hides no other one. The limit is three errors."""

    def explained(*errors: tuple[str, str]) -> list[str]:
        its = [SwarmTask(str(at), each, "failed", "", error, "", str(at)) for at, (each, error) in enumerate(errors)]
        return [task.id for task in newest_of_each_error(its)]

    assert explained(("mcp", "exit (1)"), ("mcp", ""), ("mcp", "exit (1)"), ("mcp", "no network")) == ["2", "3"]
    assert explained(("mcp", "exit (1)"), ("worker", "exit (1)")) == ["0", "1"]
    assert explained(("mcp", "exit (1)"), ("mcp", "no 3f2abc0c9d81"), ("mcp", "no 9d81abc0c3f2")) == ["0", "2"]
    assert explained(*[("mcp", error) for error in ("pull", "mount", "exit (1)", "exit (2)")]) == ["1", "2", "3"]
    assert explained(("mcp", "")) == []
