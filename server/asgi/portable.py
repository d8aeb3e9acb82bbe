"""The app as any ASGI server can serve it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http1.whole import WHOLE


class Portable:
    """Gives a response in one message (`server.http1.whole`) as the two that ASGI knows; notes a failed start."""

    def __init__(self, app: ASGIApp) -> None:
        self.refused = False
        """Whether the app did not start."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return

        async def send_parts(message: Message) -> None:
            if message["type"] != WHOLE:
                await send(message)
                return
            body = message["body"]
            length = (b"content-length", b"%d" % len(body))
            headers = [*message["headers"], length]
            await send({"type": "http.response.start", "status": message["status"], "headers": headers})
            await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, send_parts)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            self.refused = self.refused or message["type"] == "lifespan.startup.failed"
            await send(message)

        await self._app(scope, receive, note)
