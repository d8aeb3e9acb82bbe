"""The refusal of code that serves over stdio or HTTP itself while a command loads it.

Such code would read the terminal's input, or listen on a port of its own, and never return a server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastmcp import FastMCP
from mcp.server import Server, stdio
from mcp.server.mcpserver import MCPServer

from anyreplica.settings.errors import StartupError

_SERVE: tuple[tuple[Any, str], ...] = (
    (FastMCP, "run_async"),
    (MCPServer, "run_stdio_async"),
    (MCPServer, "run_sse_async"),
    (MCPServer, "run_streamable_http_async"),
    (Server, "run"),
    (stdio, "stdio_server"),
)
"""What serves, and the class or module that has it."""


@contextmanager
def refusing_to_serve(text: str) -> Iterator[None]:
    """Inside the `with` block, code that serves itself raises StartupError.

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
