"""A replica or a service that is broken or hostile harms only itself. All others are scaled in the same check."""

import asyncio
import copy
import gzip
import time
from collections.abc import Callable, Iterator
from typing import Any, cast
from unittest.mock import create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from anyreplica.autoscale import autoscaler as module
from anyreplica.autoscale.autoscaler import Autoscaler
from anyreplica.autoscale.metrics import AutoscaleMetrics
from anyreplica.autoscale.page import MAX_BYTES, Page, metrics_client
from anyreplica.autoscale.service import DockerApi, ReplicaTask, Service
from conftest import generated
from tests.autoscale.engine import LABELS, Engine, task
from tests.autoscale.hostile import Answer, damaged_pages, free_port_of, listening, never_ends, sends
from tests.autoscale.test_autoscaler import check, lines, page, text_of

BAD, GOOD = 7001, 7002
"""Ports of the services."""
BUSY = page(90)
"""A replica at 150 % of its target: two of them become three."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine with a service `bad` and a service `good`, each with two replicas."""
    with Engine() as engine:
        engine.add("bad", 2, env={"MCP_PORT": str(BAD)})
        engine.add("good", 2, env={"MCP_PORT": str(GOOD)})
        yield engine


def read_page(text: str | bytes) -> Page:
    """Return what a text says."""
    found = Page()
    found.feed(text if isinstance(text, bytes) else text.encode())
    return found


NO_PAGE = 'mcp_event_loop_lag_seconds_bucket{method="tools/call"} 1\n'
"""One of the pages that are refused. `test_page.py` has all of them."""


def test_a_replica_with_a_bad_page_is_without_figures(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The other replica of the same service still counts, the other service is scaled, and one line names the page."""

    async def read(address: str, port: int, path: str) -> Page:
        return read_page(NO_PAGE if (address, port) == ("127.0.0.2", BAD) else BUSY)

    metrics = check(engine, read, count=5)
    assert engine.replicas("good") == 10
    text = text_of(metrics)
    assert 'mcp_autoscale_replicas_without_figures{service="stack_bad"} 1.0' in text
    assert 'mcp_autoscale_load_ratio{figure="calls in flight",service="stack_bad"} 1.5' in text
    (line,) = [line for line in lines(caplog) if "stack_bad: a replica gives no figures:" in line]
    assert len(line) < 600


HUGE = 'mcp_event_loop_lag_seconds_bucket{le="1.7e307"}'
"""A replica whose event loop is late by more than a number can say."""


def test_huge_numbers_change_only_their_service(engine: Engine) -> None:
    """Sums of huge numbers are no infinity, which has no whole number. The maximum of the service still holds."""
    engine.add("bad", 2, labels={**LABELS, "anyreplica.autoscale.lag-seconds": "0.1"}, env={"MCP_PORT": str(BAD)})
    counts = iter(range(1, 1000))

    async def read(_: str, port: int, path: str) -> Page:
        return read_page(page(60, 0, f"{HUGE} {next(counts)}") if port == BAD else BUSY)

    metrics = check(engine, read, count=9)
    assert (engine.replicas("bad"), engine.replicas("good")) == (10, 10)
    assert _failures(metrics) == []


def test_one_replica_with_a_wrong_queue_adds_no_workers(engine: Engine) -> None:
    """All replicas see the same queue, so the value of one replica among three does not decide."""
    queue = {**LABELS, "anyreplica.autoscale.queue-of": "good"}
    engine.add("worker", 2, labels=queue, env={"JOBS_CONCURRENCY": "10"})
    engine.set("good", 3)

    async def read(address: str, _: int, path: str) -> Page:
        jobs = 1e14 if address == "127.0.0.2" else 12
        return read_page(page(60, 0, f"mcp_job_queue_depth {jobs:g}", f"mcp_job_queue_age_seconds {jobs / 12:g}"))

    check(engine, read, count=3)
    assert engine.replicas("worker") == 2


def _changed(path: str, value: Any) -> Callable[[Engine], None]:
    """Return a function that replaces a part of the description of the service `bad`."""
    *above, last = path.split("/")

    def change(engine: Engine) -> None:
        found = engine.services["bad"]
        for name in above:
            found = found[name]
        if value is None:
            del found[last]
        else:
            found[last] = value

    return change


def _task(value: Any) -> Callable[[Engine], None]:
    return lambda engine: engine.tasks.update(bad=[value])


def _limits(cpus: Any) -> Callable[[Engine], None]:
    return _changed("Spec/TaskTemplate/Resources/Limits/NanoCPUs", cpus)


def _env(*values: Any) -> Callable[[Engine], None]:
    return _changed("Spec/TaskTemplate/ContainerSpec/Env", list(values))


TARGET = "anyreplica.autoscale.target"
SERVICES: dict[str, Callable[[Engine], None]] = {
    "no name": _changed("Spec/Name", None),
    "no version": _changed("Version", None),
    "version is a text": _changed("Version/Index", "seven"),
    "replicas is a text": _changed("Spec/Mode/Replicated/Replicas", "many"),
    "replicas is infinite": _changed("Spec/Mode/Replicated/Replicas", float("inf")),
    "spec is a list": _changed("Spec", []),
    "labels is a list": _changed("Spec/Labels", ["a"]),
    "a label is a number": _changed("Spec/Labels", {**LABELS, "anyreplica.autoscale": 7}),
    "the target is tiny": _changed("Spec/Labels", {**LABELS, TARGET: "5e-324"}),
    "a long label": _changed("Spec/Labels", {**LABELS, TARGET: "9" * 100_000}),
    "CPU limit is a text": _limits("one"),
    "CPU limit is negative": _limits(-5),
    "CPU limit is tiny": _limits(1e-300),
    "port is too large": _env("MCP_PORT=99999999"),
    "port has many digits": _env(f"MCP_PORT={'9' * 5000}"),
    "environment has a number": _env(7),
    "no task id": _task({"Status": {"State": "running"}}),
    "a task is a text": _task("task"),
    "addresses are numbers": _task({**task("a", "127.0.0.1"), "NetworksAttachments": [{"Addresses": [5]}]}),
    "an odd address": _task(task("a", "not an address\n")),
    "tasks are no list": lambda engine: engine.tasks.update(bad=cast("Any", {"message": "no"})),
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_wrong_description_harms_only_its_service(
    engine: Engine, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Whatever Docker says about one service, the other one is scaled, and the log has a line or none, not many."""
    SERVICES[name](engine)
    wrong = copy.deepcopy(engine.services["bad"])

    async def read(address: str, port: int, path: str) -> Page:
        if port == GOOD:
            return read_page(BUSY)
        async with metrics_client(None) as replicas:
            return await replicas.read(address, port, path)

    check(engine, read, count=3)
    assert engine.replicas("good") > 2
    assert engine.services["bad"] == wrong, "nothing was changed"
    about = [line for line in lines(caplog) if "stack_good" not in line]
    assert len(about) <= 2, about
    assert all(len(line) < 700 for line in about)


def test_a_fault_of_the_autoscaler_harms_only_its_service(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """An exception that nobody has thought of is logged once with its traceback, and counted in each check."""

    async def read(_: str, port: int, path: str) -> Page:
        if port == BAD:
            raise KeyError("fault")
        return read_page(BUSY)

    metrics = check(engine, read, count=3)
    assert engine.replicas("good") > 2
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]
    assert lines(caplog).count("stack_bad: not scaled: fault of the autoscaler: KeyError('fault')") == 1
    text = text_of(metrics)
    assert 'mcp_autoscale_failures_total{service="stack_bad"} 3.0' in text
    assert 'mcp_autoscale_looks_total{outcome="failed"} 3.0' in text


def test_a_slow_service_does_not_delay_another_one(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the tasks of one service take for ever, the check of it ends, and the other one was scaled before."""
    tasks, waited = DockerApi.tasks, asyncio.Event()

    async def slow(self: DockerApi, service: Service) -> list[ReplicaTask]:
        if service.name == "stack_bad":
            await waited.wait()
        return await tasks(self, service)

    monkeypatch.setattr(DockerApi, "tasks", slow)

    async def read(_: str, __: int, path: str) -> Page:
        return read_page(BUSY)

    check(engine, read, service_seconds=0.5)
    assert engine.replicas("good") == 3
    assert "stack_bad: not scaled: the check of it took more than 0.5 s" in lines(caplog)


@pytest.mark.slow
def test_many_silent_replicas_take_no_time_from_the_others(engine: Engine) -> None:
    """Replicas that gave no answer are asked last, and all replicas together have a time limit."""
    labels = {**LABELS, "anyreplica.autoscale.max": "1000"}
    engine.add("bad", 100, labels=labels, env={"MCP_PORT": str(BAD)})
    answering = {f"127.0.0.{number}" for number in range(1, 100, 10)}
    asked: list[str] = []
    never = asyncio.Event()

    async def read(address: str, port: int, path: str) -> Page:
        if port == BAD and address not in answering and engine.replicas("good") > 2:
            asked.append(address)
            await never.wait()
        return read_page(BUSY if port == GOOD else page(60))

    count = 10
    metrics = check(engine, read, count=count, ask_seconds=0.5)
    assert len(asked) <= count * module._AT_ONCE  # and not ten times 90
    assert 'without_figures{service="stack_bad"} 90.0' in text_of(metrics)


PLAIN = "HTTP/1.1 200 OK\nContent-Type: text/plain"
COOKIES = "\n".join(f"Set-Cookie: c{number}={'x' * 50}" for number in range(1000))
ANSWERS: dict[str, tuple[Answer, str]] = {
    "a redirect": (sends("HTTP/1.1 302 Found\nLocation: http://127.0.0.1:1/\nContent-Length: 0"), "with status 302"),
    "an error": (sends("HTTP/1.1 500 Oops\nContent-Length: 0"), "with status 500"),
    "no head": (sends("\x00\x01 hello"), "gives no metrics"),
    "a long head": (never_ends(f"{PLAIN}\nX-Long: ", b"a" * 9999, end=b""), "gives no metrics"),
    "many heads": (never_ends("HTTP/1.1 103 Early", b"HTTP/1.1 103 Early\r\n\r\n", 0.001), "within 4 s"),
    "nothing": (never_ends("", b"", 1), "gives no metrics"),
    "no length": (sends(PLAIN, BUSY.encode()), "sends metrics without a Content-Length"),
    "chunks": (never_ends(f"{PLAIN}\nTransfer-Encoding: chunked", b"1\r\n\n\r\n"), "without a Content-Length"),
    "chunks and a length": (
        never_ends(f"{PLAIN}\nContent-Length: 5\nTransfer-Encoding: chunked", b"1\r\n\n\r\n"),
        "without a Content-Length",
    ),
    "a large body": (
        never_ends(f"{PLAIN}\nContent-Length: {MAX_BYTES + 1}", b"\n" * 9999),
        f"more than {MAX_BYTES} bytes",
    ),
    "a long length": (never_ends(f"{PLAIN}\nContent-Length: {'9' * 5000}", b"\n"), "gives no metrics"),
    "a bomb": (
        sends(f"{PLAIN}\nContent-Encoding: gzip\nContent-Length: 99", gzip.compress(b"\n" * 10_000_000)),
        "sends compressed metrics",
    ),
    "a slow body": (never_ends(f"{PLAIN}\nContent-Length: 5000", b"\n", 0.1), "does not answer within 4 s"),
    "a body that is cut": (sends(f"{PLAIN}\nContent-Length: 5000", BUSY.encode()), "gives no metrics"),
    "cookies": (sends(f"{PLAIN}\nContent-Length: 0\n{COOKIES}"), "none of the metrics of a replica"),
}


WAITS = ("a slow body", "many heads")
"""Answers that last until the time limit for the metrics of a replica, in each check."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in WAITS else []) for name in ANSWERS]
)
def test_a_hostile_answer_harms_only_its_replica(engine: Engine, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """One of two replicas answers with anything. The other one counts, and the other service is scaled."""
    answer, said = ANSWERS[name]
    bad, good = free_port_of("127.0.0.1", "127.0.0.2"), free_port_of("127.0.0.1", "127.0.0.2", "127.0.0.3")
    engine.add("bad", 2, env={"MCP_PORT": str(bad)})
    engine.add("good", 2, env={"MCP_PORT": str(good)})
    metrics = AutoscaleMetrics()
    fine = sends(f"{PLAIN}\nContent-Length: {len(BUSY)}", BUSY.encode())

    async def run() -> float:
        docker = DockerApi(engine.url)
        async with (
            metrics_client(SecretStr("token")) as replicas,
            listening("127.0.0.1", bad, fine),
            listening("127.0.0.2", bad, answer) as requests,
            listening("127.0.0.1", good, fine),
            listening("127.0.0.2", good, fine),
            listening("127.0.0.3", good, fine),
        ):
            start = time.monotonic()
            autoscaler = Autoscaler(docker, replicas.read, metrics)
            await autoscaler.check(1000.0)
            await autoscaler.check(1005.0)
            taken = time.monotonic() - start
            assert not replicas._client.cookies.jar
        await docker.close()
        assert b"Accept-Encoding: identity" in requests[0]
        return taken

    assert asyncio.run(run()) < 30
    assert engine.replicas("good") == 5
    assert 'mcp_autoscale_replicas_without_figures{service="stack_bad"} 1.0' in text_of(metrics)
    (line,) = [line for line in lines(caplog) if line.startswith("stack_bad: a replica gives no figures: 127.0.0.2:")]
    assert said in line
    assert len(line) < 600


def fake_docker(scaled: dict[str, int], *names: str) -> DockerApi:
    """Return an engine without a network, for many checks. It notes changes in `scaled`."""
    with Engine() as engine:
        for number, name in enumerate(names):
            engine.add(name, 3, env={"MCP_PORT": str(BAD + number)})
        services = [Service.of(each) for each in engine.services.values()]
        tasks = {name: [ReplicaTask.of(each) for each in tasks] for name, tasks in engine.tasks.items()}
    docker = create_autospec(DockerApi, instance=True)
    docker.services.return_value = (services, [])
    docker.tasks.side_effect = lambda service: tasks[service.identity]
    docker.scale.side_effect = lambda service, replicas: scaled.update({service.identity: replicas})
    return cast("DockerApi", docker)


SCALED: dict[str, int] = {}
FAKE = fake_docker(SCALED, "bad", "good")


@pytest.mark.slow
@generated(300)
@given(st.lists(st.lists(damaged_pages(lines=8), min_size=3, max_size=3), min_size=1, max_size=3))
def test_damaged_pages_harm_only_their_service(pages: list[list[bytes]]) -> None:
    """After damaged pages of three replicas, each check ends, all bounds hold, and the other service is scaled."""
    SCALED.clear()
    metrics, turn = AutoscaleMetrics(), 0

    async def read(address: str, port: int, path: str) -> Page:
        return read_page(pages[turn][int(address[-1]) - 1] if port == BAD else BUSY)

    async def run() -> None:
        nonlocal turn
        autoscaler = Autoscaler(FAKE, read, metrics)
        for turn in range(len(pages)):
            await autoscaler.check(1000.0 + 5 * turn)

    start = time.process_time()
    asyncio.run(run())
    assert time.process_time() - start < 5
    assert SCALED["good"] == 5
    assert 1 <= SCALED.get("bad", 3) <= 10
    assert _failures(metrics) == []


def _failures(metrics: AutoscaleMetrics) -> list[Any]:
    return [each for family in metrics.failures.collect() for each in family.samples]


def test_a_replica_with_an_address_of_ipv6_is_read() -> None:
    """The autoscaler writes an IPv6 address in brackets, in the URL and in the header Host."""

    async def run() -> list[bytes]:
        port = free_port_of("127.0.0.1")
        answer = sends(f"{PLAIN}\nContent-Length: {len(BUSY)}", BUSY.encode())
        async with metrics_client(None) as replicas, listening("::1", port, answer) as requests:
            await replicas.read("::1", port, "/metrics")
            return [line for line in requests[0].split(b"\r\n") if line == f"Host: [::1]:{port}".encode()]

    assert len(asyncio.run(run())) == 1
