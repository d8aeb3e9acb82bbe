"""Tests of jobs and API keys in a stack: the results of merging overlays, and the Redis as a real process."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import Redis, exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from conftest import ROOT, environment, free_port, run, until

pytestmark = pytest.mark.servers

needs_docker = pytest.mark.needs("docker")
needs_redis = pytest.mark.needs("redis")


def merged(*overlays: str, **settings: str) -> dict[str, Any]:
    """Return the stack with overlays, merged as Swarm gets it."""
    files = [argument for file in ("stack.yml", *overlays) for argument in ("-c", file)]
    done = run("docker", "stack", "config", *files, **settings)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def secrets_of(service: dict[str, Any]) -> set[str]:
    """Return the names of a service's secrets."""
    return {secret["source"] for secret in service["secrets"]}


@needs_docker
def test_the_services_share_only_one_secret() -> None:
    """The overlay adds only an external secret to mcp, which the services share and no variable overrides."""
    stack = merged("deploy/jobs.yml")
    services = stack["services"]
    assert {name: secrets_of(service) for name, service in services.items()} == {
        "mcp": {"request_state_keys", "jobs_url"},
        "worker": {"jobs_url"},
        "redis": {"jobs_url"},
    }
    assert stack["secrets"]["jobs_url"]["external"] is True
    assert not any("JOBS_URL" in service.get("environment", {}) for service in services.values())
    alone, with_jobs = merged()["services"]["mcp"], services["mcp"]
    assert {name for name in with_jobs if with_jobs[name] != alone.get(name)} == {"secrets"}
    assert merged("deploy/edge.yml", "deploy/jobs.yml")["services"].keys() == {"mcp", "edge", "worker", "redis"}


@needs_docker
def test_workers_are_replicas_of_another_command() -> None:
    """A worker is a replica with another command, no ports and time to stop; WORKERS sets their number."""
    services = merged("deploy/jobs.yml")["services"]
    mcp, worker = services["mcp"], services["worker"]
    assert worker["command"] == ["python", "-m", "server", "worker"]
    assert "ports" not in worker
    assert "healthcheck" not in worker
    shared = {**mcp["deploy"], "labels": worker["deploy"]["labels"]}
    assert worker["deploy"] == {**shared, "replicas": 2}
    for same in ("image", "read_only", "cap_drop", "stop_grace_period"):
        assert worker[same] == mcp[same]
    for same in ("MCP_NAME", "MCP_COMPONENTS", "LOG_FORMAT", "LOG_LEVEL"):
        assert worker["environment"][same] == mcp["environment"][same]
    settings = worker["environment"]
    taken = float(settings["DRAIN_SECONDS"]) + float(settings["SHUTDOWN_GRACE_SECONDS"]) + 5
    assert taken < float(worker["stop_grace_period"].removesuffix("s")), "jobs that were asked to stop have 5 s"
    chosen = merged("deploy/jobs.yml", WORKERS="5", IMAGE="jobs:1", MCP_NAME="sums", MCP_COMPONENTS="server,sums")
    worker = chosen["services"]["worker"]
    assert (worker["deploy"]["replicas"], worker["image"]) == (5, "jobs:1")
    assert (worker["environment"]["MCP_NAME"], worker["environment"]["MCP_COMPONENTS"]) == ("sums", "server,sums")


@needs_docker
def test_the_redis_of_the_stack_is_private_and_keeps_its_data() -> None:
    """The stack's Redis has no port but a volume, stops before its update, and uses half of its memory."""
    stack = merged("deploy/jobs.yml")
    redis = stack["services"]["redis"]
    assert "ports" not in redis
    assert redis["volumes"] == [{"type": "volume", "source": "redis-data", "target": "/data"}]
    assert "redis-data" in stack["volumes"]
    assert redis["deploy"]["replicas"] == 1
    assert redis["deploy"]["update_config"]["order"] == "stop-first"
    assert redis["deploy"]["endpoint_mode"] == "dnsrr"
    assert int(redis["deploy"]["resources"]["limits"]["memory"]) == 2 * 256 * 1024**2
    assert (redis["user"], redis["read_only"], redis["cap_drop"]) == ("redis", True, ["ALL"])


@needs_docker
def test_the_secret_is_where_the_setting_looks() -> None:
    """The setting has the secret's path, which stays the same when another secret replaces it."""
    stack = merged("deploy/keys.yml")
    service = stack["services"]["mcp"]
    assert service["environment"]["API_KEYS_FILE"] == "/run/secrets/api_keys"
    assert service["environment"]["AUTH_ENABLED"] == "true"
    assert secrets_of(service) == {"request_state_keys", "api_keys"}
    assert next(each["target"] for each in service["secrets"] if each["source"] == "api_keys") == "api_keys"
    assert stack["secrets"]["api_keys"] == {"external": True, "name": "api_keys"}
    assert merged("deploy/keys.yml", API_KEYS_SECRET="api_keys_2")["secrets"]["api_keys"]["name"] == "api_keys_2"


class Shipped:
    """A real redis-server that the script of `deploy/jobs.yml` starts, with its own folder and port."""

    def __init__(self, folder: Path, secret: str, **settings: str) -> None:
        self.port = free_port()
        self.folder = folder
        self.secret = folder / "jobs_url"
        self.secret.write_text(secret)
        service = yaml.safe_load((ROOT / "deploy" / "jobs.yml").read_text())["services"]["redis"]
        (_, self._check) = service["healthcheck"]["test"]
        self.process = subprocess.Popen(
            ["sh", ROOT / "deploy" / "redis" / "server.sh", "--bind", "127.0.0.1", "--port", str(self.port)],
            env=environment(JOBS_URL_FILE=str(self.secret), REDIS_DATA=str(folder), **settings),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def client(self, password: str | None) -> Redis:
        """Return a connection with a password, or without one."""
        return Redis(port=self.port, password=password, socket_timeout=5, retry=Retry(NoBackoff(), 0))

    def healthy(self) -> bool:
        """Return the result of the service's own health check."""
        check = self._check.replace("$$", "$").replace("/run/secrets/jobs_url", str(self.secret))
        check = check.replace("redis-cli", f"redis-cli -p {self.port}")
        check = check.replace("/proc/1/", f"/proc/{self.process.pid}/")
        return subprocess.run(["sh", "-c", check], capture_output=True, check=False).returncode == 0

    def wait_ready(self) -> None:
        """Wait until the script has started Redis and Redis is healthy."""
        program = Path(f"/proc/{self.process.pid}/comm")
        until(
            lambda: program.read_text() == "redis-server\n" and self.healthy(),
            "the script has started Redis and Redis is healthy",
        )

    def stop(self) -> None:
        """Stop the process as Docker does; Redis then completes its file."""
        self.process.terminate()
        self.process.communicate(timeout=60)


StartRedis = Callable[[str], Shipped]


@pytest.fixture
def start_redis(tmp_path: Path) -> Iterator[StartRedis]:
    """Return a function that starts a Redis with the given text as its secret. All of them share one folder."""
    started: list[Shipped] = []

    def start(secret: str) -> Shipped:
        started.append(Shipped(tmp_path, secret))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@needs_redis
def test_redis_is_protected_and_keeps_its_data(start_redis: StartRedis) -> None:
    """Redis requires the secret's password, hides it, keeps its data, and refuses writes when its memory is full."""
    redis = start_redis("redis://:c0ffee@redis:6379/0\n")
    redis.wait_ready()
    assert redis.client("c0ffee").ping()
    for wrong in ("c0ffee\n", "redis", None):
        with pytest.raises((exceptions.AuthenticationError, exceptions.ResponseError)):
            redis.client(wrong).ping()
    arguments = Path(f"/proc/{redis.process.pid}/cmdline").read_bytes()
    assert b"redis-server" in arguments  # the process that gets Docker's signal is Redis, not the shell
    assert b"c0ffee" not in arguments
    client = redis.client("c0ffee")
    wanted = {"appendonly": "yes", "appendfsync": "everysec", "save": ""}
    wanted |= {"maxmemory": str(256 * 1024**2), "maxmemory-policy": "noeviction"}
    assert client.config_get(*wanted) == wanted
    client.set("job", "1")
    client.config_set("maxmemory", "1mb")
    with pytest.raises(exceptions.OutOfMemoryError):
        client.set("another", "2")
    redis.stop()
    again = start_redis("redis://:c0ffee@redis:6379/0")
    again.wait_ready()
    assert again.client("c0ffee").get("job") == b"1"


@needs_redis
@pytest.mark.parametrize("secret", ["redis://redis:6379/0", "redis://:@redis:6379/0", "redis://:a%2Fb@redis:6379/0"])
def test_redis_does_not_start_without_a_password(start_redis: StartRedis, secret: str) -> None:
    """Redis does not start without a plain password, and says why."""
    redis = start_redis(secret)
    _, said = redis.process.communicate(timeout=60)
    assert redis.process.returncode == 1
    assert "Secret jobs_url: it needs a password of letters and digits, like redis://:PASSWORD@redis:6379/0" in said
    with pytest.raises(exceptions.ConnectionError):
        redis.client(None).ping()


def composed(*options: str) -> dict[str, Any]:
    """Return docker-compose.yml with options, as Docker Compose reads it."""
    done = run("docker", "compose", *options, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_docker
def test_compose_starts_a_worker_with_the_profile() -> None:
    """The profile adds a worker and a Redis, for which the replica and the worker wait."""
    alone, jobs = composed()["services"], composed("--profile", "jobs")["services"]
    assert alone.keys() == {"mcp"}
    assert jobs.keys() == {"mcp", "worker", "redis"}
    assert jobs["mcp"] == alone["mcp"]
    assert "ports" not in jobs["redis"]
    assert all(jobs[name]["depends_on"]["redis"]["condition"] == "service_healthy" for name in ("mcp", "worker"))


@needs_docker
@pytest.mark.parametrize(("redis_is_there", "url"), [(False, "None"), (True, "redis://redis:6379/0")])
def test_compose_sets_the_queue_of_jobs(tmp_path: Path, redis_is_there: bool, url: str) -> None:
    """JOBS_URL is set only if the host name `redis` exists when the replica starts."""
    (shell, option, script) = composed()["services"]["mcp"]["command"]
    for program, content in {
        "getent": f"exit {0 if redis_is_there else 2}",
        "python": """exec python3 -c 'import os; print(os.environ.get("JOBS_URL"))'""",
    }.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{content}\n")
        (tmp_path / program).chmod(0o755)
    found = run(shell, option, script.replace("$$", "$"), PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == url


@pytest.mark.needs("redis")
def test_redis_is_healthy_while_it_waits_for_the_sentinels(tmp_path: Path) -> None:
    """Redis is healthy while it waits, because Swarm's DNS has only healthy services for the Sentinels to find."""
    sentinels = f"localhost:{free_port()}"
    secret = f"redis+sentinel://:secret@{sentinels}/jobs"
    waiting = Shipped(tmp_path, secret, REDIS_SENTINELS=sentinels, REDIS_NAME="redis")
    try:
        until(waiting.healthy, "Redis is healthy")
        assert Path(f"/proc/{waiting.process.pid}/comm").read_text() == "sh\n"
    finally:
        waiting.stop()
