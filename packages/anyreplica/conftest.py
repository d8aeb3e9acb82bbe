"""Shared fixtures and helpers of the tests: real server processes on private ports of 127.0.0.1."""

import contextlib
import fcntl
import functools
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import hypothesis
import pytest

from anyreplica import Settings
from tests import guard
from tests.guard import Guard
from tests.preloaded import Forked, Preloaded

PACKAGE = Path(__file__).parent
SOURCE = PACKAGE / "src" / "anyreplica"
ROOT = PACKAGE.parent.parent
"""The repository's folder. Commands run in it."""

# The first process of a run starts the guard. Workers of pytest-xdist, and runs that a test starts, inherit the
# variable.
_guard = Guard() if guard.is_supported() and guard.VARIABLE not in os.environ else None

# Processes that the tests start also import the tests' own packages.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PACKAGE), os.environ.get("PYTHONPATH"))))
pytest_plugins = ["tests.browsers", "tests.replicas", "tests.tiers"]
REQUIRED = {name.strip() for name in os.environ.get("REQUIRE", "").split(",") if name.strip()}


def pytest_configure(config: pytest.Config) -> None:
    """Configure pytest and Hypothesis."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores SIGINT. Its child processes would ignore the Ctrl-C that the tests send.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hypothesis sets no time limit for an input, because a busy machine may be slow. Benchmarks measure time.
    hypothesis.settings.register_profile("untimed", deadline=None, max_examples=generated(100).max_examples)
    hypothesis.settings.load_profile("untimed")
    unknown = REQUIRED - _LACKS.keys()
    if unknown:
        raise pytest.UsageError(f"REQUIRE={','.join(unknown)}: unknown name; the names are {', '.join(_LACKS)}")
    config.addinivalue_line(
        "markers", "needs(name): the test is skipped if the machine lacks `name`; with REQUIRE=name it fails instead"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs something the machine lacks. With REQUIRE, fail the test instead."""
    for marker in item.iter_markers("needs"):
        (name,) = marker.args
        reason = _LACKS[name]()
        if reason and name in REQUIRED:
            pytest.fail(f"REQUIRE={name}, but {reason}")
        if reason:
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make the captured log of a test valid UTF-8. pytest-xdist sends its reports as UTF-8."""
    report = yield
    report.sections = [(name, text.encode(errors="replace").decode()) for name, text in report.sections]
    return report


def _lacks_docker() -> str:
    if shutil.which("docker") is None:
        return "docker is not installed"
    answer = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    return "" if answer.returncode == 0 else "docker cannot reach an engine"


def _lacks_swarm() -> str:
    state = ["docker", "info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}}"]
    if _lacks_docker():
        return _lacks_docker()
    answer = subprocess.run(state, capture_output=True, text=True, check=False).stdout.strip()
    return "" if answer == "active true" else "docker cannot reach a Swarm manager"


def _lacks_nodes() -> str:
    return _lacks_swarm() or (
        ""
        if os.environ.get("SWARM_NODES")
        else "SWARM_NODES is unset (the command that unplugs nodes, see tests/swarm/nodes.py)"
    )


def _lacks_node() -> str:
    suite = PACKAGE / "tests" / "conformance" / "node_modules"
    return "" if (suite / ".ready").exists() else "the conformance suite is not installed (run make conformance)"


def _lacks_redis() -> str:
    return "" if shutil.which("redis-server") else "redis-server is not installed"


def _lacks_browser() -> str:
    return "" if shutil.which("chromium") else "chromium is not installed"


def _lacks_valgrind() -> str:
    missing = [each for each in ("valgrind", "gcc") if not shutil.which(each)]
    return f"not installed: {', '.join(missing)}" if missing else ""


def _lacks_wrk() -> str:
    return "" if shutil.which("wrk") else "wrk is not installed"


def _lacks_actionlint() -> str:
    return "" if shutil.which("actionlint") else "actionlint is not installed (run .ci/install actionlint)"


def _lacks_haproxy() -> str:
    return "" if shutil.which("haproxy") else "haproxy is not installed"


def _lacks_postgres() -> str:
    found = shutil.which("initdb") or any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return "" if found else "postgresql is not installed"


def _lacks_prometheus() -> str:
    return "" if shutil.which("prometheus") and shutil.which("promtool") else "prometheus is not installed"


def _lacks_helm() -> str:
    return "" if shutil.which("helm") else "helm is not installed (run .ci/install helm)"


def _lacks_kube_score() -> str:
    return "" if shutil.which("kube-score") else "kube-score is not installed (run .ci/install kube-score)"


def _lacks_api_server() -> str:
    missing = [each for each in ("etcd", "kube-apiserver", "kube-controller-manager") if not shutil.which(each)]
    return f"not installed: {', '.join(missing)} (run .ci/api-server)" if missing else ""


def _lacks_cluster() -> str:
    return (
        ""
        if os.environ.get("CLUSTER_NODES")
        else 'no cluster is set (run .ci/cluster up, and eval "$(.ci/cluster env)")'
    )


def _lacks_ipv6_cluster() -> str:
    found = os.environ.get("CLUSTER_HOST", "").startswith("[")
    return "" if found else "no cluster with IPv6 only is set (start one with CLUSTER_FAMILY=6)"


_LACKS: Mapping[str, Callable[[], str]] = {
    "docker": _lacks_docker,
    "swarm": _lacks_swarm,
    "nodes": _lacks_nodes,
    "node": _lacks_node,
    "browser": _lacks_browser,
    "valgrind": _lacks_valgrind,
    "wrk": _lacks_wrk,
    "actionlint": _lacks_actionlint,
    "haproxy": _lacks_haproxy,
    "redis": _lacks_redis,
    "prometheus": _lacks_prometheus,
    "postgres": _lacks_postgres,
    "helm": _lacks_helm,
    "kube-score": _lacks_kube_score,
    "api-server": _lacks_api_server,
    "cluster": _lacks_cluster,
    "ipv6-cluster": _lacks_ipv6_cluster,
}


_PORTS = itertools.chain(range(random.randrange(10_000, 32_000), 32_000), itertools.cycle(range(10_000, 32_000)))
"""Ports below the range that the kernel uses for outgoing connections.

An outgoing connection could take a port of that range before the server listens on it. The first port is random, so
that two test runs on one machine do not choose the same ports.
"""


_TAKEN = os.open(Path(tempfile.gettempdir()) / f"anyreplica-test-ports-{os.getuid()}", os.O_CREAT | os.O_RDWR)
"""A file in which each byte stands for a port. A process locks the bytes of its ports until it ends."""


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1 that no test process of this machine has been given and still holds.

    A free port alone is not enough: two processes could choose it before one of them listens on it.
    """
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(_TAKEN, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port found")


GENERATED_SHARE = int(os.environ.get("GENERATED_SHARE", "1"))
"""Property-based tests use one of so many generated inputs. `make test` sets it, because it must end soon."""


def generated(count: int, **options: Any) -> hypothesis.settings:
    """Return the settings of a property-based test with `count` generated inputs, or a share of them."""
    return hypothesis.settings(max_examples=max(5, count // GENERATED_SHARE), deadline=None, **options)


def until(condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = 60) -> None:
    """Wait until a condition holds. Fail the test with the description `what` if the time ends first.

    A function returns the description as it is then, for example with what a process has printed.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)


_SETTINGS = {name.upper() for name in Settings.model_fields} | {"SECRETS_DIR"}
_MAKE = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
"""Variables that make gives to its commands.

A make that a test starts must not inherit the options of the make that runs the tests.
"""


def environment(**settings: str) -> dict[str, str]:
    """Return this process's environment, in which the given settings replace all settings of this process."""
    keep = {name: value for name, value in os.environ.items() if name.upper() not in _SETTINGS | _MAKE}
    if "PYTHONPATH" in settings:
        settings["PYTHONPATH"] = os.pathsep.join((settings["PYTHONPATH"], os.environ["PYTHONPATH"]))
    return {**keep, "DRAIN_SECONDS": "0", "PYTHONUNBUFFERED": "1", **settings}


def run(*command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the repository's folder with the given settings, and wait for its end."""
    return subprocess.run(
        command, cwd=ROOT, env=environment(**settings), capture_output=True, text=True, check=False, timeout=90
    )


_AT_START = environment()
"""The environment before the first test. A test may change the environment, and may start the first server."""


@functools.cache
def _preloaded() -> Preloaded:
    return Preloaded(_AT_START, _SETTINGS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """End what the run has left behind. If the run was not interrupted, it fails because of a process that is left."""
    yield
    if _preloaded.cache_info().currsize:
        _preloaded().close()
    if _guard is None:
        return
    left = _guard.end()
    if left and session.exitstatus != pytest.ExitCode.INTERRUPTED:
        lines = ("\nTests left these processes behind, and the guard ended them:", *left)
        session.config.get_terminal_writer().line("\n  ".join(lines), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


class Server:
    """A process that runs `python -m server`. It is ready inside a `with` block, and ends with it.

    Args:
        within: a command that gets the server's command line as further arguments and runs it.
        command: arguments of Python that replace `-m server`.
    """

    process: subprocess.Popen[bytes] | Forked

    def __init__(
        self, log: Path, *arguments: str, within: Sequence[str] = (), command: Sequence[str] = (), **settings: str
    ) -> None:
        self.port = int(settings.setdefault("MCP_PORT", str(free_port())))
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        environ = environment(**settings)
        with log.open("w") as stream:
            line = (*(command or ("-m", "server")), *arguments)
            if not within and _preloaded().fits(line, environ):
                self.process = _preloaded().start(line, environ, stream)
            else:
                self.process = subprocess.Popen(
                    [*within, sys.executable, *line],
                    cwd=ROOT,
                    env=environ,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the test run must not reach the servers.
                )

    def __enter__(self) -> Self:
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def output(self) -> str:
        """The text that the server has printed until now."""
        return self.log.read_text()

    def wait_ready(self) -> None:
        """Wait until the server is ready. Fail the test if the server ends first."""

        def ready() -> bool:
            if self.process.poll() is not None:
                pytest.fail(f"the server exited with {self.process.returncode}:\n{self.output}")
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(f"{self.url}/readyz", verify=False).status_code == 200
            return False

        until(ready, f"the server is ready; it printed:\n{self.output}")

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        """Send a signal if the server still runs, wait for its end and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            pytest.fail(f"the server did not end within {seconds:g} s:\n{self.output}")


StartServer = Callable[..., Server]


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests with the marker `anyio`."""
    return "asyncio"


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Return a function that starts a server and waits until it is ready.

    The function takes the arguments and settings of `Server`. All its servers end with the test.
    """
    with contextlib.ExitStack() as started:

        def start(*arguments: str, ready: bool = True, **settings: str) -> Server:
            server = Server(tmp_path / f"server-{next(numbers)}.log", *arguments, **settings)
            started.callback(server.stop)
            if ready:
                server.wait_ready()
            return server

        numbers = itertools.count()
        yield start


@pytest.fixture(scope="session")
def local_replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three local replicas with the sample's components and without Redis, for tests that do not change their state."""
    with Server(tmp_path_factory.mktemp("replicas") / "log", "--replicas", "3", "--no-redis") as server:
        until(lambda: "Ctrl-C stops the replicas" in server.output, "all replicas are ready")
        yield server


@pytest.fixture(scope="session")
def local_url(local_replicas: Server) -> str:
    """The URL of three local replicas."""
    return local_replicas.url


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One replica that serves the sample's components and the hostile components."""
    settings = {"CALL_TIMEOUT_SECONDS": "1", "TOOL_THREADS": "2"}
    log = tmp_path_factory.mktemp("hostile") / "log"
    with Server(log, MCP_COMPONENTS="server,tests.packs.hostile", **settings) as server:
        yield server
