"""Another MCP server, to which a replica is a proxy."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_http_request

from conftest import free_port, until


@contextmanager
def serving(mcp: FastMCP | None = None) -> Iterator[str]:
    """Yield the URL of a server.

    Args:
        mcp: the server. None: one whose tool, resource, template and prompt return the headers of their request.
    """
    mcp = mcp or seeing()
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(mcp.http_app(stateless_http=True), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "the other server has started")
    yield f"http://127.0.0.1:{port}/mcp"
    server.should_exit = True
    thread.join(30)


def seeing() -> FastMCP:
    """Return a server whose tool, resource, template and prompt return the headers of their request."""
    mcp = FastMCP("upstream")

    @mcp.tool
    def seen() -> dict[str, str]:
        return dict(get_http_request().headers)

    @mcp.resource("seen://headers")
    def seen_resource() -> str:
        return json.dumps(dict(get_http_request().headers))

    @mcp.resource("seen://headers/{name}")
    def seen_template(name: str) -> str:
        return json.dumps({"name": name, **get_http_request().headers})

    @mcp.prompt
    def seen_prompt() -> str:
        return json.dumps(dict(get_http_request().headers))

    return mcp
