"""Tests of the undocumented names of uvicorn that this package uses: an upgrade that moves a name fails here."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState
from uvicorn.supervisors.multiprocess import Process

from anyreplica.http.uvicorn.cycle import Cycle
from anyreplica.process.local_replicas import ReplicaProcess
from conftest import SOURCE

_IMPORTED = {
    "uvicorn._types": {"ASGIVersions"},
    "uvicorn.config": {"Config"},
    "uvicorn.protocols.http.flow_control": {"FlowControl", "HIGH_WATER_LIMIT"},
    "uvicorn.protocols.http.httptools_impl": {"STATUS_LINE", "RequestResponseCycle"},
    "uvicorn.protocols.utils": {"get_local_addr", "get_remote_addr", "is_ssl"},
    "uvicorn.server": {"ServerState"},
    "uvicorn.supervisors": {"Multiprocess"},
    "uvicorn.supervisors.multiprocess": {"Process"},
}
"""Imported names by module. Only `anyreplica/http/uvicorn` may import them, but any module may import supervisors."""


def test_nothing_else_is_imported() -> None:
    """Each name that the package imports from uvicorn is in the list, and only `anyreplica/http/uvicorn` imports it."""
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for module, name in _imports(file):
            found.setdefault(module, set()).add(name)
            if not module.startswith("uvicorn.supervisors"):
                assert file.parent.name == "uvicorn", (
                    f"{file} imports {module}.{name}; only anyreplica/http/uvicorn may do this"
                )
    assert found == _IMPORTED


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("uvicorn"):
            yield from ((str(node.module), alias.name) for alias in node.names)


def test_a_cycle_has_the_attributes_of_uvicorns() -> None:
    """`Cycle` sets every attribute of uvicorn's cycle. It does not call uvicorn's slower `__init__`."""
    uvicorns = _assigned(RequestResponseCycle) - {"access_logger"}  # for uvicorn's access log, which is off
    assert uvicorns <= _assigned(Cycle) | set(vars(Cycle))
    for name in ("run_asgi", "send", "receive"):
        assert callable(getattr(RequestResponseCycle, name))


def _assigned(cls: type) -> set[str]:
    """Return the attributes that `__init__` sets."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))  # type: ignore[misc]
    targets = [
        target
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {each.attr for each in targets if isinstance(each, ast.Attribute)}


def test_a_replica_has_the_attributes_of_uvicorns_process() -> None:
    """`ReplicaProcess` sets every attribute of uvicorn's process, because it does not call uvicorn's `__init__`."""
    assert _assigned(Process) == _assigned(ReplicaProcess) - {"printer"}


def test_the_names_that_a_connection_uses() -> None:
    """uvicorn has the names of the state, configuration, flow control and constructor that a connection uses."""
    state = ServerState()
    for name in ("connections", "tasks", "default_headers", "total_requests"):
        assert hasattr(state, name)
    config = Config(lambda *_: None, lifespan="off", log_config=None)
    for name in ("loaded_app", "timeout_keep_alive"):
        assert hasattr(config, name) or name in Config.load.__code__.co_names
    flow = flow_control.FlowControl(None)  # type: ignore[arg-type]
    for name in ("read_paused", "write_paused", "drain", "pause_reading", "resume_reading", "resume_writing"):
        assert hasattr(flow, name)
    made_with = list(inspect.signature(httptools_impl.HttpToolsProtocol.__init__).parameters)
    assert made_with == ["self", "config", "server_state", "app_state", "_loop"]


def test_the_names_that_the_server_uses() -> None:
    """uvicorn's server has the attributes that `anyreplica.process.listening` needs to listen on more handles."""
    assert "self.servers" in inspect.getsource(uvicorn.Server.startup)
    assert "app_state=self.lifespan.state" in inspect.getsource(uvicorn.Server.startup).replace(" ", "")
