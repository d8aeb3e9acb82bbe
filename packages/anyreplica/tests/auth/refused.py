"""The official Python client at a server that refuses it."""

import httpx2
import pytest
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client


async def text_of_refusal(url: str, **headers: str) -> str:
    """Return the text of the error that the client raises when the server at `url` refuses its first request."""
    with pytest.raises(ExceptionGroup) as failed:
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
    error: Exception = failed.value
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, MCPError)
    return str(error)
