"""The refusal to start if a part of the author's code would not be served."""

from collections.abc import Iterable

from fastmcp import FastMCP

from anyreplica.mcp import _mounts
from anyreplica.settings.errors import StartupError


def refuse_unserved(mcp: FastMCP, parts: Iterable[tuple[str, object]]) -> None:
    """Check that the server uses every part of a FastMCP server that discovery found, and every file it reads.

    Args:
        parts: servers, providers, transforms, extensions and auth providers, each with its place and name.

    Raises:
        StartupError: a part belongs to no server that is served, or a file of a `FileSystemProvider` cannot be
            imported.
    """
    served = _mounts.parts_of(mcp)
    for where, part in parts:
        if all(part is not each for each in served):
            kind = "FastMCP server" if isinstance(part, FastMCP) else type(part).__name__
            raise StartupError(
                f"{where}: this {kind} is not served, because no server uses it; mount it in the server, or pass it to "
                "create_app (in the template: server/mcp_app.py and server/server.py)"
            )
    for file, error in _mounts.failed_files(mcp):
        raise StartupError(f"{file}: {' '.join(error.split())}")
