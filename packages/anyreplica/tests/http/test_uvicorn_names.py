"""Tests of the undocumented names of uvicorn that this package uses: an upgrade that moves a name fails here."""

import ast
import inspect
import textwrap

import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState
from uvicorn.supervisors.multiprocess import Process

from anyreplica.http.uvicorn.cycle import Cycle
from anyreplica.process.supervisor import ReplicaProcess
from tests.test_private_names import modules

_IMPORTED = {
    "uvicorn._types.ASGIVersions",
    "uvicorn.config.Config",
    *(f"uvicorn.protocols.http.flow_control.{name}" for name in ("FlowControl", "HIGH_WATER_LIMIT")),
    *(f"uvicorn.protocols.http.httptools_impl.{name}" for name in ("STATUS_LINE", "RequestResponseCycle")),
    *(f"uvicorn.protocols.utils.{name}" for name in ("get_local_addr", "get_remote_addr", "is_ssl")),
    "uvicorn.server.ServerState",
    "uvicorn.supervisors.Multiprocess",
    "uvicorn.supervisors.multiprocess.Process",
}
"""Imported names. Only `anyreplica/http/uvicorn` may import them, but any module may import supervisors."""


def test_nothing_else_is_imported() -> None:
    """Each name that the package imports from uvicorn is in the list, and only `anyreplica/http/uvicorn` imports it."""
    found = [(name, module.file) for module in modules() for name in module.imports.values() if "uvicorn." in name]
    assert {name for name, _ in found} == _IMPORTED
    others = [each for each in found if not each[0].startswith("uvicorn.supervisors")]
    assert [each for each in others if not each[1].startswith("http/uvicorn/")] == []


def test_a_cycle_has_the_attributes_of_uvicorns() -> None:
    """`Cycle` sets every attribute of uvicorn's cycle. It does not call uvicorn's slower `__init__`."""
    uvicorns = _assigned(RequestResponseCycle) - {"access_logger"}  # for uvicorn's access log, which is off
    assert uvicorns <= _assigned(Cycle) | set(vars(Cycle))
    for name in ("run_asgi", "send", "receive"):
        assert callable(getattr(RequestResponseCycle, name))


def _assigned(cls: type) -> set[str]:
    """Return the attributes that `__init__` sets."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))  # type: ignore[misc]
    return {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)}


OF_OURS = {"addresses", "started", "failures", "folder", "printer"}
"""Attributes of `ReplicaProcess` that uvicorn's process does not have."""


def test_a_replica_has_the_attributes_of_uvicorns_process() -> None:
    """`ReplicaProcess` sets every attribute of uvicorn's process, because it does not call uvicorn's `__init__`."""
    assert _assigned(Process) == _assigned(ReplicaProcess) - OF_OURS


def test_the_names_that_a_connection_uses() -> None:
    """uvicorn has the names of the state, configuration, flow control and constructor that a connection uses."""
    state = ServerState()
    assert {"connections", "tasks", "default_headers", "total_requests"} <= set(dir(state))
    config = Config(lambda *_: None, lifespan="off", log_config=None)
    for name in ("loaded_app", "timeout_keep_alive"):
        assert hasattr(config, name) or name in Config.load.__code__.co_names
    flow = flow_control.FlowControl(None)  # type: ignore[arg-type]
    reading = {"read_paused", "pause_reading", "resume_reading"}
    assert reading | {"write_paused", "drain", "resume_writing"} <= set(dir(flow))
    made_with = list(inspect.signature(httptools_impl.HttpToolsProtocol.__init__).parameters)
    assert made_with == ["self", "config", "server_state", "app_state", "_loop"]


def test_the_names_that_the_server_uses() -> None:
    """uvicorn's server has the attributes that `anyreplica.process.listening` needs to listen on more handles."""
    assert "self.servers" in inspect.getsource(uvicorn.Server.startup)
    assert "app_state=self.lifespan.state" in inspect.getsource(uvicorn.Server.startup).replace(" ", "")
