"""Changes of a server while it runs, as an author may make them from a tool or a background task."""

from contextlib import suppress

from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.transforms import VersionFilter
from hypothesis import strategies as st

from anyreplica.mcp.compat import mounts
from tests.mcp.paths import composed_middleware, composed_tools

KINDS = ("disable", "enable", "remove", "add", "replace", "mount", "middleware", "transform")

Change = tuple[str, int]
"""The kind of a change, and the number of the server to which it happens."""

changes = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), min_size=1, max_size=2)


def apply(root: FastMCP, change: Change) -> None:
    """Change one of the servers behind a server."""
    kind, number = change
    found = mounts.servers_of(root)
    mcp = found[number % len(found)]
    match kind:
        case "disable":
            mcp.disable(tags={"red"})
        case "enable":
            mcp.enable(tags={"red"})
        case "remove":
            with suppress(NotFoundError, KeyError):
                mcp.local_provider.remove_tool("plain")
        case "add":
            mcp.tool(composed_tools.server_name, name="late")
        case "replace":
            with suppress(NotFoundError, KeyError):
                mcp.local_provider.remove_tool("one")
            mcp.tool(composed_tools.point, name="one")
        case "mount":
            mounted = FastMCP("mounted late")
            mounted.tool(composed_tools.server_name, name="two")
            mcp.mount(mounted, namespace="late")
        case "middleware":
            mcp.add_middleware(composed_middleware.Refuses("refuses late"))
        case _:
            mcp.add_transform(VersionFilter(version_lt="2.0"))
