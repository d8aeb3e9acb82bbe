"""A server that requires signatures."""

import contextlib
import json
import threading
from collections.abc import Iterator

import httpx
import uvicorn
from starlette.types import Receive, Scope, Send

from anyreplica.auth.authentication import BadSignature
from anyreplica.features.signatures.nonces import Nonces
from anyreplica.features.signatures.verify import Signatures
from conftest import until
from tests.signing.calls import key_of


class Asking:
    """An ASGI app that returns the signer of a request, or the reason of its refusal.

    Args:
        forward_to: URL of a server that answers the requests with a valid signature; empty: no server.
    """

    def __init__(self, forward_to: str = "") -> None:
        self._forward_to = forward_to
        self._signatures = Signatures(key_of, Nonces(None, "test", 65))
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        try:
            answer, status = {"signed_by": await self._signatures.check(scope, body)}, 200
        except BadSignature as error:
            answer, status = {"refused": str(error)}, 401
        self.bodies.append(body)
        if self._forward_to and status == 200:
            await self._forward(scope, body, send)
            return
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _forward(self, scope: Scope, body: bytes, send: Send) -> None:
        url = self._forward_to + scope["raw_path"].decode()
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            reply = await client.request(scope["method"], url, headers=scope["headers"], content=body)
        kept = ("content-type", "x-served-by")
        headers = [(name.encode(), reply.headers[name].encode()) for name in kept if name in reply.headers]
        await send({"type": "http.response.start", "status": reply.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": reply.content})


@contextlib.contextmanager
def serving(app: Asking) -> Iterator[str]:
    """Serve the app until the block ends; yield its URL."""
    config = uvicorn.Config(app, port=0, http="httptools", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the app serves")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
