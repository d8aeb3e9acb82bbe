"""A server that requires signatures."""

import contextlib
import threading
from collections.abc import Iterator

import httpx
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from anyreplica.auth.authentication import BadSignature
from anyreplica.features.signatures.nonces import Nonces
from anyreplica.features.signatures.signed_requests import Signatures
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
        body = await Request(scope, receive).body()
        self.bodies.append(body)
        try:
            signer = await self._signatures.check(scope, body)
            reply = await self._forward(scope, body) if self._forward_to else JSONResponse({"signed_by": signer})
        except BadSignature as error:
            reply = JSONResponse({"refused": str(error)}, 401)
        await reply(scope, receive, send)

    async def _forward(self, scope: Scope, body: bytes) -> Response:
        url = self._forward_to + scope["raw_path"].decode()
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            reply = await client.request(scope["method"], url, headers=scope["headers"], content=body)
        headers = {name: reply.headers[name] for name in ("content-type", "x-served-by") if name in reply.headers}
        return Response(reply.content, reply.status_code, headers)


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
