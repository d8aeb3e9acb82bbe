"""What may differ between `fastmcp run` and replicas, with a reason that an author can read."""

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """A difference that stays.

    Args:
        place: a regular expression for where it is.
        theirs, ours: regular expressions for the values, as text.
        reason: why, for the documentation.
    """

    place: str
    theirs: str
    ours: str
    reason: str


DIFFERENCES = (
    Difference(
        r"(initialize > |.* > _meta > io\.modelcontextprotocol/)serverInfo > name",
        "^FastMCP(Proxy)?-[0-9a-f]{4}$",
        "",
        "FastMCP gives a server without a name a random one. Replicas need the same name, so they take the name of the "
        "file. `MCP_NAME` sets another one.",
    ),
    Difference(
        "initialize > capabilities > .* > listChanged",
        "True",
        "False|None",
        "Without sessions there is no event stream outside of calls, so replicas do not promise to report changes of "
        "the lists. With `HANDSHAKE_SESSIONS=full` they do.",
    ),
    Difference(
        "call .*",
        "Error calling tool '.*': ",
        "Error calling tool '[^']*'$",
        "A client gets the text of a `ToolError`. The text of any other exception is in the log only, because it may "
        "contain secrets. `DEBUG_ERRORS=true` shows it to clients, too.",
    ),
)


def known(place: str, theirs: Any, ours: Any) -> bool:
    """Return whether a difference is in the list."""
    return any(
        re.fullmatch(each.place, place) and re.search(each.theirs, str(theirs)) and re.search(each.ours, str(ours))
        for each in DIFFERENCES
    )
