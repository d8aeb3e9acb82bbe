"""Tests of what the modules `mcp/_*.py` expect of FastMCP and the SDK, for example the parameters of private methods.

`test_private_names.py` lists the private names, and checks that the installed versions have them.
"""

import asyncio
import contextvars
import inspect
import weakref
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.server import context as fastmcp_context
from fastmcp.server import dependencies as fastmcp_dependencies
from fastmcp.server.dependencies import FastMCPRequestContext, get_server
from fastmcp.server.providers import FileSystemProvider, Provider
from fastmcp.server.providers.local_provider import LocalProvider
from fastmcp.server.transforms import Namespace, ToolTransform
from fastmcp.tools import ToolResult
from fastmcp.tools.tool_transform import ToolTransformConfig
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner
from mcp.server.session import ServerSession
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import BaseModel

from anyreplica.mcp.call import UnknownClient
from anyreplica.mcp.compat import contexts, mounts
from anyreplica.mcp.compat.contexts import needs_cleanup


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
    assert [each.name for each in mounts.servers_of(root)] == ["root", "child", "grandchild"]
    ((tool, origin),) = asyncio.run(mounts.origins(root))
    assert tool.name == "r_c_g_one"
    assert origin.servers == (root, child, grandchild)
    assert origin.tool is not None
    assert origin.tool.name == "one"
    grandchild.add_provider(Anything(), namespace="any")
    reason = "the provider Anything may offer a tool of this name at any time"
    assert mounts.open_names(root, lambda _: "") == [("r_c_g_any_", reason)]
    root.add_transform(ToolTransform({"r_c_g_any_old": ToolTransformConfig(name="new")}))
    assert mounts.open_names(root, lambda _: "") == [("r_c_g_any_", reason), ("new", reason)]
    assert ("r_c_g_", "hides tools") in mounts.open_names(root, lambda each: "hides tools" * (each is grandchild))


class Anything(Provider):
    """A provider of an author, about which nothing is known."""


def test_a_provider_that_reads_its_files_again_is_known(tmp_path: Path) -> None:
    """`_mounts` knows whether a `FileSystemProvider` reads its files in each request."""
    for reload in (False, True):
        server = FastMCP("test", providers=[FileSystemProvider(tmp_path, reload=reload)])
        assert mounts.are_lists_steady(server) is not reload


def test_a_context_has_the_attributes_that_call_context_creates() -> None:
    """FastMCP's Context has exactly the attributes that `CallContext` creates on demand."""
    ours = {"_fastmcp", "_session", "_tokens", "_task_id", "_origin_request_id", "_request_state"}
    ours |= {"_task_input_responses", "_task_request_state"}
    assert set(vars(Context(FastMCP("test")))) == ours


def test_a_request_context_has_the_fields_of_lazy_request_context() -> None:
    """FastMCP's request context has exactly the fields of `LazyRequestContext`."""
    fields = {"session", "request_id", "meta", "request", "protocol_version", "close_sse_stream", "lifespan_context"}
    assert set(FastMCPRequestContext.__dataclass_fields__) == fields | {"_srctx"}
    assert all(name in vars(contexts.LazyRequestContext) for name in (*fields, "_srctx"))


def test_the_connection_of_an_unknown_client_is_like_that_of_the_sdk() -> None:
    """It has the attributes of the connection that the SDK makes from missing values."""
    theirs = Connection.from_envelope(LATEST_HANDSHAKE_VERSION, None, None)
    ours = UnknownClient(LATEST_HANDSHAKE_VERSION, theirs.outbound)
    assert not needs_cleanup(ours)
    assert ours.initialized.is_set()
    assert isinstance(ours.exit_stack, AsyncExitStack)
    for name in vars(theirs).keys() - {"initialized", "exit_stack"}:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert vars(ours).keys() == vars(theirs).keys()
    ours.exit_stack.callback(list)
    assert needs_cleanup(ours)


def test_the_methods_of_the_sdks_runner_have_these_parameters() -> None:
    """The methods of the SDK's runner take the positional arguments that `mcp/compat` passes."""
    of_context = ["dctx", "method", "params", "meta", "protocol_version"]
    assert list(inspect.signature(ServerRunner._make_context).parameters)[1:] == of_context
    assert list(inspect.signature(ServerRunner._serialize).parameters)[1:] == ["method", "version", "result"]


def assert_same(model: BaseModel, other: BaseModel) -> None:
    """Fail if two models differ in anything that pydantic stores."""
    for part in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        assert getattr(model, part) == getattr(other, part), part


def test_the_params_of_a_tool_call() -> None:
    """They are those that pydantic makes, and a change of them does not change the request."""
    arguments = {"message": "hello", "more": [1]}
    params = contexts.tool_params("echo", arguments)
    assert_same(params, CallToolRequestParams(name="echo", arguments=arguments))
    assert params.arguments is not arguments
    meta = {"fastmcp": {"version": "2"}}
    assert_same(contexts.tool_params("echo", {}, meta), CallToolRequestParams(name="echo", arguments={}, _meta=meta))


def test_the_result_of_a_text() -> None:
    """A text's tool result is the one that pydantic makes, in all parts, and shares no object with another one."""
    result, other = contexts.text_result("hello"), contexts.text_result("hello")
    made = ToolResult.model_construct(
        content=[TextContent(type="text", text="hello")],
        structured_content={"result": "hello"},
        meta={"fastmcp": {"wrap_result": True}},
    )
    assert_same(result, made)
    assert_same(result.content[0], made.content[0])
    assert result.content is not other.content
    assert result.structured_content is not other.structured_content
    assert result.meta is not other.meta
    assert not contexts.has_raw_result(result)
    assert contexts.has_raw_result(ToolResult.from_mcp_result(CallToolResult(content=[])))


def test_a_mounted_server_leaves_no_variable_behind() -> None:
    """After the call of a mounted server's tool, FastMCP's variables are as they were before."""
    root, mounted = FastMCP("root"), FastMCP("mounted")
    server, transport = fastmcp_dependencies._current_server, fastmcp_context._current_transport

    def scenario() -> None:
        server.set(weakref.ref(root))
        with contexts.Binding(mounted, None, root).within():
            assert (get_server(), transport.get()) == (mounted, "streamable-http")
        assert get_server() is root
        assert transport.get() is None
        assert fastmcp_context._current_context.get() is None

    contextvars.Context().run(scenario)
