"""The capabilities that a client needs for a request of the server."""

from collections.abc import Mapping
from typing import Any

from mcp_types import ClientCapabilities


def missing_capability(client: ClientCapabilities, method: str, params: Mapping[str, Any] | None) -> str:
    """Return the capability that a client lacks for a request; return an empty text if it lacks none.

    Elicitation has the modes `form` and `url`. A client that names no mode has the mode `form` (2025-11-25, Client
    features, "Elicitation"). Sampling with tools needs `sampling.tools` (2025-11-25, Client features, "Sampling").
    """
    params = params or {}
    if method == "elicitation/create":
        has = client.elicitation
        if has is None:
            return "elicitation"
        if params.get("mode") == "url":
            return "" if has.url is not None else "elicitation.url"
        return "" if has.form is not None or has.url is None else "elicitation.form"
    if method == "sampling/createMessage":
        if client.sampling is None:
            return "sampling"
        wants_tools = "tools" in params or "toolChoice" in params
        return "sampling.tools" if wants_tools and client.sampling.tools is None else ""
    return "roots" if method == "roots/list" and client.roots is None else ""
