"""The server that a command runs, in the forms that `fastmcp run` accepts, and its app.

These forms include the files `fastmcp.json`, and the `mcpServers` of an MCP client.
"""

import asyncio
import importlib.util
import inspect
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fastmcp import FastMCP
from mcp.server import Server, stdio
from mcp.server.mcpserver import MCPServer
from pydantic import ValidationError
from starlette.types import ASGIApp

from anyreplica.all_settings import Settings
from anyreplica.app import App, app_factory, create_app
from anyreplica.components.importing import MARK, DiscoveryError, import_file, import_module, short
from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.masking import note_choices
from anyreplica.mcp.compat.sdk_server import EXPECTED, SdkServer, as_fastmcp, type_name
from anyreplica.process.start import refusing
from anyreplica.settings import misspelt, of_fastmcp
from anyreplica.settings.errors import StartupError
from anyreplica.shared.redis import connect


@dataclass(frozen=True)
class Configured:
    """The server that a `fastmcp.json` names, and the arguments for its own code."""

    text: str
    arguments: tuple[str, ...]


def configured(file: Path) -> FastMCP | Configured:
    """Read a file and apply its deployment (environment variables, working directory, address and log level).

    The environment variables MCP_HOST, MCP_PORT, MCP_PATH and LOG_LEVEL override the file.

    Returns:
        A proxy of the servers in `mcpServers`, or the server that a `fastmcp.json` names.

    Raises:
        StartupError: the file cannot be read, is not valid, or asks for something that anyreplica does not support.
    """
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise StartupError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise StartupError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise StartupError(f"{file}: must be a JSON object at the top level")
    if "mcpServers" in content:
        from fastmcp.server import create_proxy  # noqa: PLC0415  # only proxies need it

        return create_proxy(content)
    return _server(file.resolve(), content)


def _server(file: Path, content: dict[str, object]) -> Configured:
    from fastmcp.utilities.mcp_server_config import MCPServerConfig  # noqa: PLC0415  # only these files need it

    try:
        config = MCPServerConfig.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StartupError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    deployment = config.deployment
    if deployment.transport == "sse":
        raise StartupError(f"{file}: deployment.transport: sse is not supported; remove it, so that clients use HTTP")
    if content.get("environment") and multiprocessing.parent_process() is None:  # the replicas need not say it again
        print(f"Warning: {file}: environment is ignored; the server uses the packages of this Python.", file=sys.stderr)
    deployment.apply_runtime_settings(file)
    place = Path(config.source.path).expanduser().resolve()  # in the working directory that the file may have chosen
    if not place.exists():
        place = (file.parent / config.source.path).resolve()
    wanted = {
        "MCP_HOST": deployment.host,
        "MCP_PORT": deployment.port,
        "MCP_PATH": deployment.path,
        "LOG_LEVEL": deployment.log_level,
    }
    for name, value in wanted.items():
        if value is not None:
            os.environ.setdefault(name, str(value))
    entry = f":{config.source.entrypoint}" if config.source.entrypoint else ""
    return Configured(f"{place}{entry}", tuple(deployment.args or ()))


FACTORY = "anyreplica.cli.source:create"
"""The app factory of the processes that a command starts. It reads the variable below."""

_VARIABLE = "_ANYREPLICA_SOURCE"

_NAMES = ("mcp", "server", "app")
"""The names that a file may give its server."""

_SERVERS = (FastMCP, App, MCPServer, Server)

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

_SERVE: tuple[tuple[Any, str], ...] = (
    (FastMCP, "run_async"),
    (MCPServer, "run_stdio_async"),
    (MCPServer, "run_sse_async"),
    (MCPServer, "run_streamable_http_async"),
    (Server, "run"),
    (stdio, "stdio_server"),
)
"""What serves, and the class or module that has it."""


@app_factory
def create() -> App:
    """Create the app of the server that this process's parent has chosen with `for_children`."""
    text, arguments = json.loads(os.environ[_VARIABLE])
    return app_from(text, arguments)


@app_factory
def create_worker() -> ASGIApp:
    """Create the app of the worker that `anyreplica run --replicas` starts beside the replicas of the same server."""
    app = create.__wrapped__()  # type: ignore[attr-defined]  # its errors are reported here
    return app.worker()  # type: ignore[no-any-return]


def for_children(text: str, arguments: Sequence[str]) -> None:
    """Choose the server that `create` serves in the processes that this process starts.

    Call this before the server is loaded, because its code may change the working directory.
    """
    place, name = (text, "") if not _has_name(text) else text.rpartition(":")[::2]
    if place.endswith((".py", ".json")) and "://" not in place:
        text = f"{Path(place).resolve()}{name and ':'}{name}"
    os.environ[_VARIABLE] = json.dumps([text, list(arguments)])


def app_from(text: str, arguments: Sequence[str] = ()) -> App:
    """Create the app of a server.

    Args:
        text: where the server is: a Python file, a module, `FILE:NAME`, `MODULE:NAME`, a `fastmcp.json`, a JSON file
            with `mcpServers`, or the URL of another MCP server. The name belongs to a FastMCP server, to a server of
            the MCP SDK, to an App, or to a function that returns one of them.
        arguments: the command line of the server's own code (`sys.argv[1:]`).

    Raises:
        StartupError: the server cannot be loaded or served.
    """
    note_choices()
    with refusing():
        made = _load(text, arguments)
        return made if isinstance(made, App) else create_app(made, _settings_for(made, text))


def app_of(server: str, arguments: Sequence[str] = ()) -> App:
    """Create the app of a server, and print a warning for each suspicious setting.

    Suspicious settings are names without effect (probably misspelt, or FastMCP's) and unusual combinations.

    Args:
        server: Where the server is, see `app_from`.
        arguments: The command line of the server's own code.

    Raises:
        StartupError: The server cannot be loaded or served.
    """
    app = app_from(server, arguments)
    warn(app.settings)
    return app


def warn(settings: Settings) -> None:
    """Print a warning for each suspicious setting."""
    ignored = of_fastmcp.without_effect(settings)
    for sentence in (*misspelt(os.environ, settings), *ignored, *settings.doubts()):
        print(f"Warning: {sentence}", file=sys.stderr)


def check_files_and_urls(app: App) -> None:
    """Check the files, URLs and packages that the settings of an app name, without a connection to anything.

    Raises:
        StartupError: One of them is not valid.
    """
    with refusing():
        connect(app.settings)  # this only checks the URLs
        for feature in app.features:
            feature.check()


def folder_of(text: str) -> str:
    """Return the folder with the code of a server, or an empty text if there is none or if it is not found."""
    place = text.rpartition(":")[0] if _has_name(text) else text
    if place.endswith((".py", ".json")):
        return str(Path(place).resolve().parent)
    spec = None if "://" in text else importlib.util.find_spec(place.partition(".")[0])
    if spec is None or spec.origin is None:
        return ""
    return str(Path(spec.origin).parent)


def _load(text: str, arguments: Sequence[str]) -> FastMCP | App:
    if text.startswith(("http://", "https://")):
        from fastmcp.server import create_proxy  # noqa: PLC0415  # only proxies need it

        return create_proxy(text)
    if text.endswith(".json"):
        found = configured(Path(text))
        if isinstance(found, FastMCP):
            return found
        text, arguments = found.text, arguments or found.arguments
    place, name = text, ""
    if _has_name(text):
        place, _, name = text.rpartition(":")
    with _argv(place, arguments), refusing_to_serve(text):
        try:
            module = import_file(Path(place)) if place.endswith(".py") else import_module(place, blame=text)
        except DiscoveryError as error:
            if isinstance(error.__cause__, StartupError):  # such as an invalid setting, which has a line of its own
                raise error.__cause__ from None
            raise
        return _server_in(module, name, text)


def _has_name(text: str) -> bool:
    return ":" in text.rpartition("/")[2] and "://" not in text


@contextmanager
def _argv(place: str, arguments: Sequence[str]) -> Iterator[None]:
    """Inside the `with` block, `sys.argv` has the arguments of the server's own code, if there are any."""
    before = sys.argv
    sys.argv = [place, *arguments] if arguments else before
    try:
        yield
    finally:
        sys.argv = before


def _server_in(module: ModuleType, name: str, text: str) -> FastMCP | App:
    if not name:
        found = {each: getattr(module, each) for each in _NAMES if hasattr(module, each)}
        for each in found.values():
            if isinstance(each, _SERVERS):
                return each if isinstance(each, App) else as_fastmcp(each)
        others = "; ".join(f"{each} is a {type_name(value)}" for each, value in found.items())
        names = ", ".join(_NAMES)
        raise StartupError(
            f"{text}: no server has one of the names {names}{others and f' ({others})'}; write {text}:NAME"
        )
    if not hasattr(module, name):
        raise StartupError(f"{text}: {short(module.__file__ or module.__name__)} has no {name!r}")
    made = getattr(module, name)
    if callable(made) and not isinstance(made, (*_SERVERS, type)):
        made = _called(made.__wrapped__ if getattr(made, MARK, None) == "app_factory" else made, text)
    if not isinstance(made, _SERVERS):
        raise StartupError(f"{text}: this is a {type_name(made)}; {EXPECTED}, or a function that returns one")
    return made if isinstance(made, App) else as_fastmcp(made)


def _called(function: Any, text: str) -> Any:
    """Return the result of a factory, which may be an `async` function."""
    try:
        with suppress(ValueError):  # a function without a signature, for example one in C
            inspect.signature(function).bind()
    except TypeError as error:
        raise StartupError(f"{text}: {error}; name a function without parameters, or a server") from None
    made = function()
    if not inspect.iscoroutine(made):
        return made
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(made)
    with ThreadPoolExecutor(1) as pool:  # the loop of this thread serves already
        return pool.submit(asyncio.run, made).result()


def _settings_for(mcp: FastMCP, text: str) -> Settings:
    """Return the settings of a server without a template: it is its own components, and has its own name."""
    settings = Settings.load()
    changes: dict[str, Any] = {}
    if "mcp_name" not in settings.model_fields_set:
        unnamed = mcp.has_default_name if isinstance(mcp, SdkServer) else sdk.has_random_name(mcp)
        named = Path(text.partition(":")[0]).stem if unnamed else mcp.name
        changes["mcp_name"] = _NOT_IN_NAMES.sub("-", named).strip("-._")[:64] or settings.mcp_name
    if "mcp_components" not in settings.model_fields_set:
        changes["mcp_components"] = ()
    return settings.model_copy(update=changes)


@contextmanager
def refusing_to_serve(text: str) -> Iterator[None]:
    """Inside the `with` block, code that serves itself raises StartupError.

    Such code would read the terminal's input, or listen on a port of its own, and never return a server.

    Args:
        text: where the server is, as on the command line.
    """

    def refuse(*_: Any, **__: Any) -> Any:
        raise StartupError(
            f"{text}: this code runs a server itself; name the server, or a function that only returns it. "
            'Put the call of run() under if __name__ == "__main__":'
        )

    before = [(owner, name, getattr(owner, name)) for owner, name in _SERVE]
    for owner, name in _SERVE:
        setattr(owner, name, refuse)
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)
