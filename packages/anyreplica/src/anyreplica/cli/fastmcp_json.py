"""The files that `fastmcp run` accepts as a server: `fastmcp.json`, and the `mcpServers` of an MCP client."""

import json
import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fastmcp import FastMCP
from pydantic import ValidationError

from anyreplica.settings.errors import StartupError


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
