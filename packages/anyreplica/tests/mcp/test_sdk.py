"""Tests of the private names of FastMCP and the SDK that the modules `mcp/_*.py` use.

If an upgrade moves a name, the test of that name fails. The failure says where the name was and why the package needs
it.
"""

import ast
import asyncio
import importlib
import inspect
from contextlib import AsyncExitStack
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.server import context as fastmcp_context
from fastmcp.server.dependencies import FastMCPRequestContext
from fastmcp.server.providers import FileSystemProvider, Provider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.transforms import Namespace, ToolTransform
from fastmcp.tools import ToolResult
from fastmcp.tools.tool_transform import ToolTransformConfig
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner
from mcp.server.session import ServerSession
from mcp_types import CallToolResult, TextContent

from anyreplica.mcp import _mounts, _sdk, _state_store
from conftest import SOURCE

NAMES = {
    "fastmcp.server.context": {
        "_current_context": "the Context of the running call",
        "_current_transport": "the transport of the running call",
    },
    "fastmcp.server.dependencies": {
        "_current_server": "the server of the running call",
        "_CurrentContext": "the dependency that injects a Context",
        "_OptionalCurrentContext": "the dependency that injects a Context, or None if there is no Context",
    },
    "fastmcp.server.providers.wrapped_provider": {"_WrappedProvider": "a provider with transforms around it"},
    "uncalled_for.resolution": {"_Depends": "the open dependencies of the running call"},
    "fastmcp.tools.base": {"_serialize_to_jsonable": "a tool's value as plain data"},
    "fastmcp.tools.function_tool": {"_ToolBodyError": "marks pydantic's errors that a tool's body raised"},
    "fastmcp.tools.base.ToolResult": {"_raw_mcp_result": "the `CallToolResult` of the SDK that a tool result contains"},
    "mcp.server.runner": {"_extract_meta": "the typed _meta of a request"},
    "mcp.server.runner.ServerRunner": {
        "_serialize": "a handler's result as it is sent in a protocol version",
        "_make_context": "the SDK's context of a request",
    },
}
ATTRIBUTES = {
    "_mcp_server": "the SDK's server beneath FastMCP's",
    "_transforms": "the server's transforms",
    "_lookup_resource": "the resource of a URI, and whether one is hidden from the caller",
    "_extensions": "the server's protocol extensions",
    "_shared_context_snapshot": "the app's Shared() dependencies",
    "_state_storage": "the author's own store of session state",
    "_FastMCP__state_store": "the store of session state",
    "_state_store": "the store of session state, created at its first use",
    "_mask_error_details": "whether callers see only a general text when a component fails",
    "_on_duplicate": "what happens to a second component with the same name",
    "_additional_http_routes": "the custom routes of the server's author",
    "_request_state_security": "how request states are sealed",
}


@pytest.mark.parametrize(("where", "name"), [(where, name) for where, names in NAMES.items() for name in names])
def test_a_name_is_where_it_was(where: str, name: str) -> None:
    """The module or class still has the name."""
    try:
        home: Any = importlib.import_module(where)
    except ModuleNotFoundError:
        module, _, kind = where.rpartition(".")
        home = getattr(importlib.import_module(module), kind)
    assert hasattr(home, name), f"{where}.{name} has moved: {NAMES[where][name]} (mcp/_sdk.py needs it)"


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_of_the_server_is_there(name: str) -> None:
    """An instance of FastMCP's server has the attribute, which its constructor creates."""
    assert hasattr(FastMCP("test"), name), f"FastMCP.{name} has moved: {ATTRIBUTES[name]} (mcp/_sdk.py)"


def test_a_handler_of_the_sdks_server_can_be_removed() -> None:
    """A handler that is deleted from the SDK's dictionary is neither called nor listed in the capabilities."""
    server = FastMCP("test")._mcp_server
    assert server.get_request_handler("tools/list") is not None
    del server._request_handlers["tools/list"]
    assert server.get_request_handler("tools/list") is None
    assert server.get_capabilities().tools is None


def test_a_session_has_the_channel_of_its_request() -> None:
    """The SDK's session keeps the channel that it was made with."""
    channel: Any = object()
    session = ServerSession(channel, Connection.from_envelope("2025-11-25", None, None))
    assert session._request_outbound is channel


def test_the_registry_of_components_is_a_dictionary_that_is_changed_by_item() -> None:
    """FastMCP changes its registry of components item by item, which is the only change that `Components` counts."""
    provider = FastMCP("test").local_provider
    assert type(provider._components) is dict
    source = "".join(inspect.getsource(each) for each in type(provider).__mro__ if issubclass(each, LocalProvider))
    assert "self._components[component.key] = component" in source, "FastMCP adds components in another way"
    assert "del self._components[key]" in source, "FastMCP removes components in another way"
    assert not any(f"_components.{way}(" in source for way in ("pop", "update", "setdefault", "popitem"))


def test_the_origin_of_a_mounted_tool_is_found() -> None:
    """The tools, providers and transforms of FastMCP have the attributes that `_mounts` reads."""
    root, child, grandchild = FastMCP("root"), FastMCP("child"), FastMCP("grandchild")
    grandchild.tool(lambda: 1, name="one")
    child.mount(grandchild, namespace="g")
    root.mount(child, namespace="c")
    root.add_transform(Namespace("r"))
    assert [each.name for each in _mounts.servers_of(root)] == ["root", "child", "grandchild"]
    ((tool, origin),) = asyncio.run(_mounts.origins(root))
    assert tool.name == "r_c_g_one"
    assert origin.servers == (root, child, grandchild)
    assert origin.tool is not None
    assert origin.tool.name == "one"
    grandchild.add_provider(Anything(), namespace="any")
    reason = "the provider Anything may offer a tool of this name at any time"
    assert _mounts.open_names(root, lambda _: "") == [("r_c_g_any_", reason)]
    root.add_transform(ToolTransform({"r_c_g_any_old": ToolTransformConfig(name="new")}))
    assert _mounts.open_names(root, lambda _: "") == [("r_c_g_any_", reason), ("new", reason)]
    assert ("r_c_g_", "hides tools") in _mounts.open_names(root, lambda each: "hides tools" * (each is grandchild))


class Anything(Provider):
    """A provider of an author, about which nothing is known."""


def test_a_provider_that_reads_its_files_again_is_known(tmp_path: Path) -> None:
    """`_mounts` knows whether a `FileSystemProvider` reads its files in each request."""
    for reload in (False, True):
        server = FastMCP("test", providers=[FileSystemProvider(tmp_path, reload=reload)])
        assert _mounts.are_lists_steady(server) is not reload


def test_a_context_has_the_attributes_that_call_context_creates() -> None:
    """FastMCP's Context has exactly the attributes that `CallContext` creates on demand."""
    ours = {"_fastmcp", "_session", "_tokens", "_task_id", "_origin_request_id", "_request_state"}
    ours |= {"_task_input_responses", "_task_request_state"}
    assert set(vars(Context(FastMCP("test")))) == ours


def test_a_request_context_has_the_fields_of_lazy_request_context() -> None:
    """FastMCP's request context has exactly the fields of `LazyRequestContext`."""
    fields = {"session", "request_id", "meta", "request", "protocol_version", "close_sse_stream", "lifespan_context"}
    assert set(FastMCPRequestContext.__dataclass_fields__) == fields | {"_srctx"}
    assert all(name in vars(_sdk.LazyRequestContext) for name in (*fields, "_srctx"))


def test_an_exit_stack_has_the_private_list_of_callbacks() -> None:
    """`AsyncExitStack` has the private attribute that shows if the stack is empty."""
    assert not AsyncExitStack()._exit_callbacks  # type: ignore[attr-defined]


def test_the_methods_of_the_sdks_runner_have_these_parameters() -> None:
    """The methods of the SDK's runner take the positional arguments that `mcp/_sdk.py` passes."""
    assert list(inspect.signature(ServerRunner._make_context).parameters)[1:] == [
        "dctx",
        "method",
        "params",
        "meta",
        "protocol_version",
    ]
    assert list(inspect.signature(ServerRunner._serialize).parameters)[1:] == ["method", "version", "result"]


def test_no_other_module_touches_a_private_name() -> None:
    """Only modules whose names begin with one underscore use private names of FastMCP and the SDK."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.match("_[!_]*.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            library = isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0]
            if library in ("fastmcp", "mcp", "mcp_types"):
                assert isinstance(node, ast.ImportFrom)
                private = "._" in f".{node.module}" or any(alias.name.startswith("_") for alias in node.names)
                if private:
                    found.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Attribute) and node.attr in {*ATTRIBUTES, *NAMES["fastmcp.server.context"]}:
                found.append(f"{path.name}:{node.lineno}")
    assert not found, f"private names of FastMCP or the SDK: {found}"


def test_every_private_name_in_use_is_tested_here() -> None:
    """Each private name that these modules use has a test here, so that a failure after an upgrade shows the name."""
    tested = {name for names in NAMES.values() for name in names} | set(ATTRIBUTES)
    tested |= {
        "_request_outbound",
        "_components",
        "_srctx",
        "_tokens",
        "_request_state",
        "_fastmcp",
        "_exit_callbacks",
        "_request_handlers",
    }
    used = {
        node.attr
        for module in (_sdk, _state_store)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    assert used <= tested | {"_call", "_binding"}, used - tested


def test_the_result_of_a_text() -> None:
    """A text's tool result is the one that pydantic makes, in all parts, and shares no object with another one."""
    result, other = _sdk.text_result("hello"), _sdk.text_result("hello")
    made = ToolResult.model_construct(
        content=[TextContent(type="text", text="hello")],
        structured_content={"result": "hello"},
        meta={"fastmcp": {"wrap_result": True}},
    )
    parts = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
    for part in parts:
        assert getattr(result, part) == getattr(made, part), part
    assert result.content is not other.content
    assert result.structured_content is not other.structured_content
    assert result.meta is not other.meta
    assert not _sdk.has_raw_result(result)
    assert _sdk.has_raw_result(ToolResult.from_mcp_result(CallToolResult(content=[])))


def test_a_mounted_server_leaves_no_variable_behind() -> None:
    """After the call of a mounted server's tool, the variables of its shared dependencies are as they were before."""
    known, unknown = ContextVar[str]("known"), ContextVar[str]("unknown")
    root, mounted = FastMCP("root"), FastMCP("mounted")
    mounted._shared_context_snapshot = {known: "mounted", unknown: "mounted"}

    def scenario() -> None:
        known.set("root")
        with _sdk.Binding(mounted, None, root).within():
            assert (known.get(), unknown.get()) == ("mounted", "mounted")
        assert known.get() == "root"
        assert unknown.get("not set") == "not set"
        assert fastmcp_context._current_context.get() is None

    copy_context().run(scenario)
