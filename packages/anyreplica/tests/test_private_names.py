"""Tests of all private names of other packages that anyreplica uses, wherever they are used.

An upgrade of another package may move such a name without notice. These tests find the uses in the source of the
package: a name that is not in the lists fails, and so does a name that the installed version does not have. The tests
`mcp/test_sdk.py`, `auth/login/test_names.py` and `http/test_uvicorn_names.py` check more about the names of FastMCP,
the SDK and uvicorn, such as the parameters of methods.
"""

import ast
import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator
from importlib.metadata import version
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import pytest
from fastmcp import Context
from fastmcp.server.dependencies import without_injected_parameters
from packaging.version import Version

from anyreplica.components import prepare
from conftest import SOURCE

PLACES = {"http/uvicorn/protocol.py", "process/event_loop.py", "shared/lost_redis.py"}
"""The modules outside of `mcp/compat` that use private names of uvicorn, asyncio or redis-py."""

IMPORTED = {
    "anyio._backends._asyncio.AsyncIOBackend": "a thread of our own serves anyio.from_thread",
    "anyio._backends._asyncio.CancelScope": "the same; the public class looks for the backend first",
    "anyio._core._eventloop.claim_worker_thread": "the same",
    "anyio._core._eventloop.threadlocals": "the cancel scope of the call that runs in the thread",
    "fastmcp.server.context._current_context": "the Context of the running call",
    "fastmcp.server.context._current_transport": "the transport of the running call",
    "fastmcp.server.dependencies._CurrentContext": "the dependency that injects a Context",
    "fastmcp.server.dependencies._OptionalCurrentContext": "the same, or None",
    "fastmcp.server.dependencies._current_server": "the server of the running call",
    "fastmcp.server.providers.proxy._CacheEntry": "a list of components that a proxy keeps",
    "fastmcp.server.providers.wrapped_provider._WrappedProvider": "a provider with transforms around it",
    "fastmcp.telemetry._SUPPRESS_KEY": "suppresses the spans of FastMCP",
    "fastmcp.tools.function_tool._ToolBodyError": "marks pydantic's errors that a tool's body raised",
    "mcp.server._otel.OpenTelemetryMiddleware": "it stays outside of our middleware",
    "mcp.server.runner._extract_meta": "the typed _meta of a request",
    "redis._parsers": "redis-py's parsers",
    "redis._parsers._AsyncHiredisParser": "a lost connection must end the read",
    "redis._parsers._AsyncRESP2Parser": "the same",
    "redis._parsers._AsyncRESP3Parser": "the same",
    "uncalled_for.resolution._Depends": "the open dependencies of the running call",
    "uvicorn._types.ASGIVersions": "the type of a part of the scope",
}
"""Private modules and names that are imported, or read from an imported module, and what they are for."""

_CREATED = {
    "asyncio.base_events": "_ready",
    "contextlib": "_exit_callbacks",
    "fastmcp.server.auth.cimd": "_assertion_validator _cache _fetcher _jti_cache",
    "fastmcp.server.auth.oauth_proxy.proxy": (
        "_cimd_manager _client_storage _client_store _default_file_store _get_refresh_lock "
        "_jti_mapping_store _jwt_issuer _jwt_signing_key _upstream_client_secret _upstream_token_store"
    ),
    "fastmcp.server.context": "_fastmcp _request_state _tokens",
    "fastmcp.server.dependencies": "_srctx",
    "fastmcp.server.mixins.transport": "_get_additional_http_routes",
    "fastmcp.server.providers.base": "_transforms",
    "fastmcp.server.providers.fastmcp_provider": "_original_name _server",
    "fastmcp.server.providers.filesystem": "_reload",
    "fastmcp.server.providers.local_provider.local_provider": "_components _on_duplicate",
    "fastmcp.server.providers.wrapped_provider": "_inner",
    "fastmcp.server.server": (
        "_FastMCP__state_store _additional_http_routes _client_log_levels _extensions _lookup_resource "
        "_mask_error_details _mcp_server _request_state_security _shared_context_snapshot _state_storage "
        "_state_store"
    ),
    "fastmcp.server.transforms.namespace": "_prefix",
    "fastmcp.tools.base": "_raw_mcp_result",
    "key_value.aio.adapters.pydantic.base": "_default_collection _key_value",
    "key_value.aio.stores.filetree.store": "_data_directory",
    "mcp.server.lowlevel.server": "_request_handlers",
    "mcp.server.mcpserver.prompts.manager": "_prompts",
    "mcp.server.mcpserver.resources.resource_manager": "_resources _templates",
    "mcp.server.mcpserver.server": (
        "_auth_server_provider _custom_starlette_routes _lowlevel_server _prompt_manager _resource_manager "
        "_token_verifier _tool_manager"
    ),
    "mcp.server.mcpserver.tools.tool_manager": "_tools",
    "mcp.server.request_state": "_security",
    "mcp.server.runner": "_make_context _serialize",
    "mcp.server.session": "_connection _request_outbound",
    "mcp.server.subscriptions": "_bus",
    "pydantic.main": "__pydantic_private__",
}
ATTRIBUTES = {name: module for module, names in _CREATED.items() for name in names.split()}
"""Private attributes of objects, and the module that creates each of them."""

SINCE = {"_lookup_resource": "4.1.2", "_default_file_store": "4.1.7"}
"""Private attributes that older versions of FastMCP lack. The code does without them there."""

UNTIL = {"_client_log_levels": "4.2"}
"""Private attributes that this version of FastMCP and newer ones lack. The code does without them there."""

PUBLIC = {"_replace", "_exit", "_current_frames"}
"""Names with an underscore that the documentation of Python describes: of a named tuple, of `os` and of `sys`."""

PATCHED = {
    "anyio._core._eventloop.threadlocals.current_cancel_scope": "anyio._backends._asyncio",
    "fastmcp.FastMCP.__init__": "fastmcp.server.server",
    "fastmcp.client.transports.SSETransport.connect_session": "fastmcp.client.transports.sse",
    "fastmcp.client.transports.StreamableHttpTransport.connect_session": "fastmcp.client.transports.http",
    "fastmcp.server.auth.ssrf.resolve_hostname": "fastmcp.server.auth.ssrf",
    "fastmcp.server.providers.proxy._CacheEntry.is_fresh": "fastmcp.server.providers.proxy",
    "fastmcp.server.providers.aggregate.gather": "fastmcp.server.providers.aggregate",
    "fastmcp.server.transforms.visibility.get_visibility_rules": "fastmcp.server.transforms.visibility",
    "fastmcp_tasks.context.snapshot_codec": "fastmcp_tasks.context",
    "redis.asyncio.sentinel.SentinelManagedConnection.connect_check_health": "redis.asyncio.sentinel",
}
"""Names of other packages' modules and objects that anyreplica replaces, and the module that uses each of them."""

_STANDARD = {name for each in (object, type, FunctionType, MethodType, ModuleType, BaseException) for name in dir(each)}
_STANDARD |= {"__wrapped__", "__path__", "__file__", "__signature__", "__version__", "__args__", "__stderr__"}


class Use(NamedTuple):
    """A use of a private name: the full one of an imported object, or only that of an attribute."""

    file: str
    line: int
    name: str


class Module:
    """The source of one module of the package."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        self.tree = tree
        self.imports = dict(imports(tree))
        self.defined = set(_defined(tree))

    def full_name(self, node: ast.expr) -> str:
        """Return the full name of an attribute of something imported from another package; empty: it is another."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, "")
        if isinstance(node, ast.Attribute):
            above = self.full_name(node.value)
            return f"{above}.{node.attr}" if above else ""
        return ""

    def imported(self) -> Iterator[Use]:
        """Yield the private names that are imported, or read from something that was imported."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [name for _, name in imports(ast.Module([node], []))]
            elif isinstance(node, ast.Attribute) and _is_private(node.attr):
                names = [self.full_name(node)]
            else:
                continue
            yield from (Use(self.file, node.lineno, name) for name in names if any(map(_is_private, name.split("."))))

    def attributes(self) -> Iterator[Use]:
        """Yield the private attributes of objects that neither this module nor Python defines."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                name, owner = node.attr, node.value
            elif (found := _by_text(node)) is not None:
                name, owner = found
            else:
                continue
            is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
            if not _is_private(name) or is_own or name in PUBLIC or self.full_name(owner):
                continue
            if name not in self.defined or (name in ATTRIBUTES and _is_compat(self.file)):
                yield Use(self.file, getattr(node, "lineno", 0), name)

    def patches(self) -> Iterator[Use]:
        """Yield the names of other packages that are replaced."""
        for node in ast.walk(self.tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [self.full_name(each) for each in targets if isinstance(each, ast.Attribute)]
            if isinstance(node, ast.Call) and _called(node) in ("setattr", "delattr") and len(node.args) > 1:
                target = self.full_name(node.args[0])
                names = [f"{target}.{ast.literal_eval(node.args[1])}"] if target else []
            yield from (Use(self.file, node.lineno, name) for name in names if name)  # type: ignore[attr-defined]


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that are imported from other packages than Python's and ours, with their full names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(each.asname or each.name.partition(".")[0], each.name) for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [(each.asname or each.name, f"{node.module}.{each.name}") for each in node.names]
        else:
            continue
        known = sys.stdlib_module_names | {"anyreplica"}
        yield from ((name, full) for name, full in found if full.partition(".")[0] not in known)


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines: functions, classes, variables, fields, slots, attributes of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
                yield name
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                yield from (str(each.value) for each in ast.walk(value) if isinstance(each, ast.Constant))


def _by_text(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the attribute that a call such as `getattr(server, "_name")` names, and its object."""
    if isinstance(node, ast.Call) and _called(node) in ("getattr", "setattr", "hasattr", "delattr"):
        name = node.args[1] if len(node.args) > 1 else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value, node.args[0]
    return None


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_private(name: str) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return name not in _STANDARD
    return name.startswith("_")


@functools.cache
def modules() -> tuple[Module, ...]:
    """Return all modules of the package."""
    files = sorted(SOURCE.rglob("*.py"))
    return tuple(Module(file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text())) for file in files)


def found(name: str) -> Any:
    """Import an object by its full name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            home: Any = importlib.import_module(".".join(parts[:count]))
            for part in parts[count:]:
                home = getattr(home, part)
            return home
    raise ModuleNotFoundError(name)


def _is_compat(file: str) -> bool:
    """Return whether a module may use private names of FastMCP, the SDK and anyio, for example `mcp/compat/sdk.py`."""
    return file.startswith("mcp/compat/")


def test_each_imported_private_name_is_known() -> None:
    """Each private name that a module imports is in the list, and each name of the list is in use."""
    uses = [use for module in modules() for use in module.imported()]
    assert [use for use in uses if use.name not in IMPORTED] == []
    assert {use.name for use in uses} == IMPORTED.keys()


@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_name_exists(name: str) -> None:
    """The installed version of the other package has the name."""
    try:
        found(name)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{name} has moved: {IMPORTED[name]} ({error})")


def test_each_private_attribute_is_known() -> None:
    """Each private attribute of an object of another package is in the list, and each name of the list is in use."""
    uses = [use for module in modules() for use in module.attributes()]
    assert [use for use in uses if use.name not in ATTRIBUTES] == []
    unused = ATTRIBUTES.keys() - {use.name for use in uses}
    text = "".join(ast.unparse(module.tree) for module in modules())
    assert {name for name in unused if name not in text} == set()


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_private_attribute_exists(name: str) -> None:
    """The module of the installed version creates the attribute."""
    if Version(version("fastmcp")) < Version(SINCE.get(name, "0")):
        pytest.skip(f"FastMCP has it since {SINCE[name]}")
    if Version(version("fastmcp")) >= Version(UNTIL.get(name, "1000")):
        pytest.skip(f"FastMCP had it until {UNTIL[name]}")
    tree = ast.parse(inspect.getsource(importlib.import_module(ATTRIBUTES[name])))
    defined = {*_defined(tree), *(each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute))}
    assert name.removeprefix("_FastMCP") in defined, f"{name} is no longer in {ATTRIBUTES[name]}"


def test_only_some_modules_use_private_names() -> None:
    """Only the modules in `mcp/compat` use private names, and the few modules in `PLACES`."""
    uses = [use for module in modules() for use in (*module.imported(), *module.attributes())]
    places = {use.file for use in uses if not _is_compat(use.file)}
    assert places - {"components/outcome.py"} == PLACES  # it copies `__pydantic_private__`, which pydantic documents


def test_each_patch_is_known() -> None:
    """Each name of another package that a module replaces is in the list, and the installed version has the name."""
    uses = [use for module in modules() for use in module.patches()]
    assert [use for use in uses if use.name not in PATCHED] == []
    assert {use.name for use in uses} == PATCHED.keys()
    for name, module in PATCHED.items():
        home, _, last = name.rpartition(".")
        found(home)
        assert last in inspect.getsource(importlib.import_module(module)), f"{name} has moved"


def test_a_wrapper_of_fastmcp_is_known_by_its_name() -> None:
    """`prepare` recognises FastMCP's wrapper by the name of its code, and finds the author's function inside."""

    def author(ctx: Context, text: str) -> str:
        return text

    wrapper = without_injected_parameters(author)
    assert wrapper is not author
    assert wrapper.__code__.co_qualname == prepare._INJECTING
    assert prepare._author_function(wrapper) is author
    texts = [each for module in modules() for each in ast.walk(module.tree) if isinstance(each, ast.Constant)]
    named = [each.value for each in texts if isinstance(each.value, str) and "<locals>" in each.value]
    assert named == [".<locals>.wrapper"], "another name of inner code is used; it needs a test, too"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from fastmcp._private import thing", ["fastmcp._private.thing"]),
        ("from starlette import _utils as u\nu.get_route_path", ["starlette._utils"]),
        ("import anyio\nanyio._core._eventloop.x", ["anyio._core", "anyio._core._eventloop"]),
        ("def f(s):\n    return s._hidden", ["_hidden"]),
        ("def f(s):\n    return getattr(s, '_hidden')", ["_hidden"]),
        ("import mcp.server as m\nm.run = print\nsetattr(m, 'go', 1)", ["mcp.server.run", "mcp.server.go"]),
        ("class A:\n    def f(self, other):\n        self._x = other._x\n        import os; os._exit(1)", []),
    ],
)
def test_a_use_is_found(text: str, names: list[str]) -> None:
    """The scan finds imports, attributes, names in texts and patches."""
    module = Module("file.py", ast.parse(text))
    uses = [*module.imported(), *module.attributes(), *module.patches()]
    assert sorted({use.name for use in uses}) == sorted(names)
