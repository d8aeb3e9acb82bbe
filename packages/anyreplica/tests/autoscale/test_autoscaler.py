"""The checks of the autoscaler, with a stand-in for the engine and made-up figures of the replicas."""

import asyncio
import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from anyreplica.autoscale.autoscaler import Autoscaler, Read
from anyreplica.autoscale.metrics import AutoscaleMetrics
from anyreplica.autoscale.page import Page
from anyreplica.autoscale.service import DockerApi
from tests.autoscale.engine import LABELS, Engine, task

NO_ROOM = "no suitable node (insufficient resources on 3 nodes)"


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine without services."""
    with Engine() as engine:
        yield engine


def page(in_flight: float = 0, cpu: float = 0, *more: str) -> str:
    """Return a page of metrics of a replica with MAX_IN_FLIGHT=100."""
    lines = [f"mcp_requests_in_flight {in_flight}", "mcp_requests_in_flight_max 100"]
    return "\n".join([*lines, f"process_cpu_seconds_total {cpu}", "process_start_time_seconds 1", *more]) + "\n"


def check(
    engine: Engine,
    read: Read,
    metrics: AutoscaleMetrics | None = None,
    *changes: Callable[[], object],
    count: int = 1,
    now: float = 1000.0,
    **options: Any,
) -> AutoscaleMetrics:
    """Check an engine some times, with a change before each check, and return the metrics of the autoscaler."""
    metrics = metrics or AutoscaleMetrics()

    async def run() -> None:
        docker = DockerApi(engine.url)
        autoscaler = Autoscaler(docker, read, metrics, **options)
        for number in range(count):
            if number < len(changes):
                changes[number]()
            await autoscaler.check(now + 5 * number)
        await docker.close()

    asyncio.run(run())
    return metrics


class Run:
    """Looks at an engine, one every five seconds of a made-up clock. `pages` are the metrics by address.

    With a number of replicas, the engine gets a service `mcp`.
    """

    def __init__(self, engine: Engine, replicas: int = 0, *, dry_run: bool = False) -> None:
        self.engine = engine
        if replicas:
            engine.add("mcp", replicas)
        self.pages: dict[str, str] = {}
        self.metrics = AutoscaleMetrics()
        self.now = 1000.0
        self._dry_run = dry_run
        self.asked: list[tuple[str, int, str]] = []

    async def read(self, address: str, port: int, path: str) -> Page:
        """Return the page of a replica, or raise OSError without one."""
        self.asked.append((address, port, path))
        if address not in self.pages:
            raise OSError("no answer")
        page = Page()
        page.feed(self.pages[address].encode())
        return page

    def checks(self, *changes: Callable[[], object], count: int = 1) -> None:
        """Look a number of times, with a change before each check."""
        count = max(count, len(changes))
        check(self.engine, self.read, self.metrics, *changes, count=count, now=self.now, dry_run=self._dry_run)
        self.now += 5 * count

    def everywhere(self, in_flight: float, cpu: float = 0.0, *more: str) -> Callable[[], None]:
        """Return a function that gives all addresses the same figures."""

        def change() -> None:
            self.pages = {f"127.0.0.{number}": page(in_flight, cpu, *more) for number in range(1, 30)}

        return change


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("anyreplica")]


def test_calls_in_flight_add_replicas(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Ninety calls in flight of a hundred, with a target of 60 %, ask for half as many replicas more."""
    engine.add("mcp", 4)
    spec = copy.deepcopy(engine.services["mcp"]["Spec"])
    run = Run(engine)
    run.checks(run.everywhere(90))
    assert engine.replicas("mcp") == 6
    assert lines(caplog) == ["stack_mcp: 4 -> 6 replicas: calls in flight: 150% of the target on 4 replicas"]
    spec["Mode"]["Replicated"]["Replicas"] = 6
    assert engine.services["mcp"]["Spec"] == spec, "nothing else has changed"
    assert engine.refused == []
    assert set(run.asked) == {(f"127.0.0.{number}", 8000, "/metrics") for number in range(1, 5)}


def test_cpu_lag_and_durations_add_replicas(engine: Engine) -> None:
    """CPU of 150 % of the target adds replicas; lag and durations do so if their labels have a target."""
    run = Run(engine, 2)
    run.checks(run.everywhere(1, 10.0), run.everywhere(1, 10.0 + 5 * 0.45))  # of a limit of half a core
    assert engine.replicas("mcp") == 3

    def histogram(name: str, labels: str, fast: int, slow: int) -> list[str]:
        counts = {"0.01": fast, "1.0": fast + slow, "+Inf": fast + slow}
        return [f'{name}_bucket{{{labels}le="{bound}"}} {count}' for bound, count in counts.items()]

    def pages(slow: int) -> list[str]:
        lag = histogram("mcp_event_loop_lag_seconds", "", 100, slow)
        calls = histogram("mcp_request_duration_seconds", 'method="tools/call",tool="a",', 100, slow)
        return [*lag, *calls]

    for label, expected in (("lag-seconds", 4), ("p99-seconds", 4), ("other", 2)):
        engine.add("mcp", 2, labels={**LABELS, f"anyreplica.autoscale.{label}": "0.1"})
        run = Run(engine)
        run.checks(run.everywhere(60, 0, *pages(0)), run.everywhere(60, 0, *pages(100)))
        assert engine.replicas("mcp") == expected, label


def test_replicas_are_removed_after_five_quiet_minutes(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A new autoscaler removes nothing in its first five minutes, because it does not know what was wanted before."""
    run = Run(engine, 6)
    run.checks(run.everywhere(10), count=60)
    assert engine.replicas("mcp") == 6
    run = Run(engine)
    run.checks(run.everywhere(10), count=63)
    assert engine.replicas("mcp") == 1
    assert lines(caplog)[-1] == "stack_mcp: 6 -> 1 replicas: calls in flight: 17% of the target on 6 replicas"


def test_nothing_is_changed_during_an_update(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """During an update or a rollback the number stays. Afterwards the load is served."""
    run = Run(engine, 3)

    def update(state: str) -> Callable[[], None]:
        def change() -> None:
            run.everywhere(90)()
            engine.services["mcp"]["UpdateStatus"] = {"State": state}

        return change

    run.checks(*(update(state) for state in ("updating", "updating", "paused", "rollback_started", "rollback_paused")))
    assert engine.replicas("mcp") == 3
    assert "stack_mcp: stays at 3 replicas: an update runs" in lines(caplog)
    assert len(lines(caplog)) == 4, "each reason is logged once"
    run.checks(update("completed"))
    assert engine.replicas("mcp") == 5


@pytest.mark.parametrize("missing", ["answer", "number", "drain", "text"])
def test_a_replica_without_figures_never_causes_a_change(engine: Engine, missing: str) -> None:
    """One replica of three gives no answer, no number, drains, or says nonsense."""
    wrong = {
        "number": page().replace("mcp_requests_in_flight 0", "mcp_requests_in_flight NaN"),
        "drain": page(100, 0, "mcp_replica_draining 1"),
        "text": "<html>",
    }
    for in_flight, expected in ((0, 3), (70, 3), (200, 7)):
        run = Run(engine, 3)

        def change(in_flight: float = in_flight, run: Run = run) -> None:
            run.everywhere(in_flight)()
            run.pages.pop("127.0.0.2")
            if missing in wrong:
                run.pages["127.0.0.2"] = wrong[missing]

        run.checks(change)
        assert engine.replicas("mcp") == min(expected, 6)


def test_a_lost_answer_keeps_no_replica(engine: Engine) -> None:
    """If a replica misses three checks, this keeps no replica for the next five minutes."""
    run = Run(engine, 6)
    idle = run.everywhere(5)
    run.checks(*[idle] * 30, *[lambda: run.pages.pop("127.0.0.2", None)] * 3, *[idle] * 30)
    assert engine.replicas("mcp") == 1


@pytest.mark.parametrize("path", ["/services", "/tasks"])
@pytest.mark.parametrize("late", [{20}, {56, 57}, {*range(0, 30, 2)}], ids=["one", "the last two", "each second one"])
def test_a_late_answer_of_docker_keeps_no_replica(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, path: str, late: set[int]
) -> None:
    """Replicas are removed five minutes after the load has ended, also if answers of Docker were late in this time.

    The autoscaler waits ten seconds for an answer. So the next check comes 15 s after a late one.
    """
    answers, run, number = engine.get, Run(engine, 6), 0

    def get(asked: str) -> tuple[int, Any]:
        return (503, {"message": "late"}) if number in late and asked.startswith(path) else answers(asked)

    monkeypatch.setattr(engine, "get", get)

    async def checks() -> None:
        nonlocal number
        docker = DockerApi(engine.url)
        autoscaler = Autoscaler(docker, run.read, run.metrics)
        number, passed = -1, 0  # seconds since the load has ended
        run.everywhere(60, 1.0)()
        await autoscaler.check(run.now)
        while passed < 320:
            assert engine.replicas("mcp") == 6 or passed > 300
            passed += 15 if number in late else 5
            number += 1
            run.everywhere(5, 1.0 + passed / 100)()
            await autoscaler.check(run.now + passed)
        await docker.close()

    asyncio.run(checks())
    assert engine.replicas("mcp") == 1
    assert f'mcp_autoscale_looks_total{{outcome="failed"}} {len(late)}.0' in text_of(run.metrics)


def test_without_any_figure_nothing_is_changed(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """If no replica answers, the number stays, for ever. The log gives the reason once, and says when it is over."""
    run = Run(engine, 5)
    run.checks(count=200)
    assert engine.replicas("mcp") == 5
    assert 'without_figures{service="stack_mcp"} 5.0' in text_of(run.metrics)
    silent = "stack_mcp: no replica gives figures, so the number stays: no answer"
    assert lines(caplog) == [silent]
    caplog.clear()

    def away() -> None:
        run.pages = {}

    run.checks(away, run.everywhere(60), away, away, away, away)
    assert lines(caplog) == [silent, "stack_mcp: replicas give figures again", silent]


def text_of(metrics: AutoscaleMetrics) -> str:
    """Return the metrics of the autoscaler as text."""
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_nodes_without_room_are_told_of(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """If a replica has no node, the number does not rise, and one line says why. It can still fall."""
    engine.add("mcp", 3)
    engine.tasks["mcp"][2] = task("mcp-3", "127.0.0.3", "pending", NO_ROOM)
    run = Run(engine)
    run.checks(run.everywhere(300), count=10)
    assert engine.replicas("mcp") == 3
    assert lines(caplog) == [f"stack_mcp: stays at 3 replicas: no node has room for 1 of them ({NO_ROOM})"]
    text = text_of(run.metrics)
    assert 'mcp_autoscale_replicas_without_room{service="stack_mcp"} 1.0' in text
    assert 'mcp_autoscale_held{service="stack_mcp"} 1.0' in text


def test_a_number_that_somebody_sets_is_respected(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A manual scale within the bounds, which always hold, stays for five minutes or until the load asks for more."""
    run = Run(engine, 2)
    run.checks(run.everywhere(60), lambda: engine.set("mcp", 8), count=50)
    assert engine.replicas("mcp") == 8
    said = "somebody else has changed 2 replicas to 8; they stay for 300 s, or until the load asks for more"
    assert lines(caplog) == [f"stack_mcp: {said}"]
    run.checks(run.everywhere(90), lambda: engine.set("mcp", 2))
    assert engine.replicas("mcp") == 3
    engine.set("mcp", 20)
    run.checks(run.everywhere(60))
    assert engine.replicas("mcp") == 10
    assert lines(caplog)[-1].endswith("; 10 is the maximum")


@pytest.mark.slow
def test_two_autoscalers_do_not_fight(engine: Engine) -> None:
    """With two of them, each number holds as long as with one: one's change is a number that the other respects."""
    engine.add("mcp", 2)
    seen: list[int] = []
    one, two = Run(engine), Run(engine)

    async def run() -> None:
        docker = DockerApi(engine.url)
        both = [Autoscaler(docker, each.read, each.metrics) for each in (one, two)]
        for number in range(400):
            for each in (one, two):
                each.everywhere(120 / engine.replicas("mcp") * 2 if 5 < number < 20 else 20)()
            await asyncio.gather(*(each.check(1000.0 + 5 * number) for each in both))
            seen.append(engine.replicas("mcp"))
        await docker.close()

    asyncio.run(run())
    changes = [(a, b) for a, b in itertools.pairwise(seen) if a != b]
    assert [b > a for a, b in changes] == sorted((b > a for a, b in changes), reverse=True), "up, and then down"
    assert seen[-1] == 1


def test_a_dry_run_changes_nothing(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A dry run logs what it would change, and once why it would change nothing."""
    run = Run(engine, 4, dry_run=True)
    run.checks(run.everywhere(60), run.everywhere(60), run.everywhere(180), count=5)
    assert engine.replicas("mcp") == 4
    assert lines(caplog)[0] == "stack_mcp: stays at 4 replicas: calls in flight: 100% of the target on 4 replicas"
    change = "stack_mcp: would change: 4 -> 7 replicas: calls in flight: 167% of the target on 4 replicas"
    assert change in lines(caplog)


def test_workers_follow_the_queue(engine: Engine) -> None:
    """The replicas report the queue. The workers follow its length and the age of its oldest job."""
    queue = {**LABELS, "anyreplica.autoscale.queue-of": "mcp"}
    for figures, expected in (((50, 10, 0), 10), ((0, 12, 0), 2), ((1, 0, 90), 2), ((6, 0, 90), 6), ((0, 0, 0), 2)):
        engine.add("mcp", 2, labels={})
        engine.add("worker", 2, labels=queue, env={"JOBS_CONCURRENCY": "10"})
        depth, running, age = figures
        names = ("mcp_job_queue_depth", "mcp_jobs_running", "mcp_job_queue_age_seconds")
        more = [f"{name} {value}" for name, value in zip(names, (depth, running, age), strict=True)]
        run = Run(engine)
        run.checks(run.everywhere(100, 0, *more), count=3)
        assert engine.replicas("worker") == expected, figures
        assert engine.replicas("mcp") == 2, "the service without a label is not scaled"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"anyreplica.autoscale": "true"}, "anyreplica.autoscale.min is missing; set it to a number of replicas"),
        (
            {**LABELS, "anyreplica.autoscale.queue-of": "nobody"},
            "anyreplica.autoscale.queue-of='nobody': the stack has no such service",
        ),
    ],
)
def test_a_service_that_cannot_be_scaled_is_named(
    engine: Engine, caplog: pytest.LogCaptureFixture, labels: dict[str, str], said: str
) -> None:
    """A wrong label or a global service is not scaled, one line says why, and the other services are scaled."""
    engine.add("wrong", 3, labels=labels)
    engine.add("global", 2)
    engine.services["global"]["Spec"]["Mode"] = {"Global": {}}
    run = Run(engine, 4)
    run.checks(run.everywhere(90), count=2)
    assert f"stack_wrong: not scaled: {said}" in lines(caplog)
    assert sum("mode: global" in line for line in lines(caplog)) == 1
    assert (engine.replicas("wrong"), engine.replicas("mcp")) == (3, 9)


def test_a_change_at_the_same_moment_wins(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """If somebody changes the service between the check and the change, the autoscaler changes nothing."""
    engine.add("mcp", 4)
    run, tasks = Run(engine), engine.get

    def meanwhile(path: str) -> tuple[int, Any]:
        found = copy.deepcopy(tasks(path))
        if path.startswith("/tasks"):
            engine.set("mcp", 5)
        return found

    monkeypatch.setattr(engine, "get", meanwhile)
    run.checks(run.everywhere(90))
    assert engine.replicas("mcp") == 5


def test_a_service_without_the_label_is_forgotten(engine: Engine) -> None:
    """If the label is removed, the metrics of the service disappear."""
    run = Run(engine, 4)
    run.checks(run.everywhere(60), lambda: engine.services["mcp"]["Spec"].update(Labels={}))
    assert "stack_mcp" not in text_of(run.metrics).replace("mcp_autoscale_changes", "")


@pytest.mark.parametrize("url", ["", "docker", "ssh://host", "unix://", "https://host"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """The URL of the engine must have a form that the autoscaler can use."""
    with pytest.raises(ValueError, match="is not unix:///path"):
        DockerApi(url)
