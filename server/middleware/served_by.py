"""`X-Served-By`: which replica answered."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ServedBy:
    """Add the replica's name to every response, errors included."""

    def __init__(self, app: ASGIApp, replica: str) -> None:
        self.app = app
        self.header = (b"x-served-by", replica.encode("latin-1"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_name(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), self.header]
            await send(message)

        await self.app(scope, receive, send_with_name)
