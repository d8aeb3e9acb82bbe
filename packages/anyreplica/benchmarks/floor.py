"""The floor: a bare ASGI app that answers an echo call with HTTP and JSON only.

`python -m benchmarks.floor` serves the app on `MCP_PORT`. The app checks nothing and logs nothing.
"""

import os
from collections.abc import Callable
from typing import Any

import orjson
import uvicorn
from starlette.types import Receive, Scope, Send


async def echo(message: str) -> str:
    """Return the message."""
    return message


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer `GET` with 200 and `POST` as a call of `echo`."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["method"] == "GET":
        await _reply(send, b"{}")
    else:
        await _reply(send, orjson.dumps(await _call(await _body(receive))))


async def _lifespan(receive: Receive, send: Send) -> None:
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


async def _body(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        part = await receive()
        if part["type"] == "http.disconnect":
            return body
        body += part["body"]
        if not part["more_body"]:
            return body


async def _call(body: bytes) -> dict[str, Any]:
    message = orjson.loads(body)
    text = await echo(**message["params"]["arguments"])
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}, "isError": False}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def _reply(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def options(served: Callable[..., Any]) -> dict[str, Any]:
    """Return uvicorn's options of a replica, without an access log, for an ASGI app."""
    return {
        "app": served,
        "host": "127.0.0.1",
        "port": int(os.environ["MCP_PORT"]),
        "loop": "uvloop",
        "http": "httptools",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": 75,
    }


def serve(served: Callable[..., Any]) -> None:
    """Serve an ASGI app on `MCP_PORT` until SIGTERM."""
    uvicorn.run(**options(served))


if __name__ == "__main__":
    serve(app)
