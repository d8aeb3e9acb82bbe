"""Tests of features whose extra is not installed: a start refuses them with one line."""

import importlib.util
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from anyreplica.features.keys.key import hash_of
from anyreplica.process import local_redis
from anyreplica.settings import errors
from anyreplica.settings.errors import StartupError
from conftest import run
from tests.starts import start

_JOB = "from anyreplica import job\n\n\n@job\nasync def crunch() -> int:\n    return 1\n"
_PLAIN = "from fastmcp import FastMCP\n\nmcp = FastMCP('x')\n\n\n@mcp.tool\ndef fast() -> int:\n    return 1\n"
_TASK = f"{_PLAIN}\n\n@mcp.tool(task=True)\nasync def slow() -> int:\n    return 1\n"
_KEYS = {"AUTH_ENABLED": "true", "AUTH_TOKEN": "x" * 32, "SIGNING": "accept", "API_KEYS_FILE": "keys"}

_WITHOUT_EXTRAS = """
import sys
from contextlib import nullcontext

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in ("docket", "fakeredis", "http_message_signatures", "http_sf", "opentelemetry.sdk"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotInstalled())

from anyreplica import Settings, create_app
from anyreplica.process.lifecycle import Lifecycle
from fastmcp import FastMCP

create_app(FastMCP("plain"), Settings(auto_discover=False)).compose(Lifecycle(0), nullcontext())
"""


@pytest.fixture(autouse=True)
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of the extras are not installed."""

    def find_spec(name: str) -> ModuleSpec | None:
        return None if name in errors.EXTRA_MODULES.values() else importlib.util.find_spec(name)

    monkeypatch.setattr(errors, "find_spec", find_spec)


@pytest.mark.parametrize(
    ("code", "command", "settings", "told"),
    [
        (_PLAIN, "check --worker", {"MCP_COMPONENTS": "work", "JOBS_URL": "redis://x"}, "the worker: needs packages"),
        (_PLAIN, "check", {"MCP_COMPONENTS": "work"}, "job 'crunch': needs packages"),
        (_TASK, "check", {}, "tool 'slow' with task=True: needs packages"),
        (_PLAIN, "check", _KEYS, "SIGNING=accept: needs packages"),
        (_PLAIN, "check", {}, ""),
    ],
)
def test_a_feature_without_its_extra_is_refused(
    tmp_path: Path, code: str, command: str, settings: dict[str, str], told: str
) -> None:
    """The line names what needs the extra, and the extra. Without such a feature, the server starts."""
    (tmp_path / "keys").write_text(json.dumps({"id": "ci", "hash": hash_of("x" * 32)}))
    (tmp_path / "served.py").write_text(code)
    (tmp_path / "work.py").write_text(_JOB)
    done = start(*command.split(), "served.py", folder=str(tmp_path), PYTHONPATH=str(tmp_path), **settings)
    assert (done.returncode, done.stderr[: len(told)]) == (3 if told else 0, told)
    assert ("install anyreplica with its extra" in done.stderr) == bool(told)


@pytest.mark.servers
@pytest.mark.smoke
def test_a_plain_server_needs_no_extra() -> None:
    """A replica of a plain server imports no package of an extra."""
    ended = run(sys.executable, "-c", _WITHOUT_EXTRAS)
    assert ended.returncode == 0, ended.stderr


def test_local_replicas_without_a_redis_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `redis-server` and without the stand-in, the line names all ways out."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    line = r"REDIS_URL: the Redis of local replicas: needs packages .*extra local .*redis-server.*--no-redis$"
    with pytest.raises(StartupError, match=line), local_redis.running(["REDIS_URL"]):
        pass
