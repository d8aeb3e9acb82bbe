"""The error of a request to a client."""

from typing import Any

from fastmcp.exceptions import ToolError
from mcp import MCPError

from anyreplica.components.problems import LONGEST_TEXT


class ClientRequestError(MCPError, ToolError):
    """A request to the client has failed, or the client has answered it with an error.

    A tool can catch this error as the SDK's `MCPError`. If the tool does not catch it, its text becomes the text of the
    tool's error, because FastMCP does not hide a `ToolError` from callers.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        # The client may have written the text.
        line = "".join(letter if letter.isprintable() else " " for letter in message[:LONGEST_TEXT])
        super().__init__(code, line, data)
