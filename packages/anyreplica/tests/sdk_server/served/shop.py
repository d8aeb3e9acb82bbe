"""An `MCPServer` with every kind of component. `make()` makes a new one."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import mcp_types as mt
from mcp import MCPError
from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve, UserMessage
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

PIXEL = b"\x89PNG\r\n\x1a\n"


class Item(BaseModel):
    """A thing in the shop."""

    name: str
    price: float = 0


class Confirmation(BaseModel):
    """What the client answers."""

    sure: bool


async def ask(item: str) -> Elicit[Confirmation]:
    return Elicit(f"Buy {item}?", Confirmation)


@asynccontextmanager
async def opened(_: MCPServer[Any]) -> AsyncIterator[dict[str, Any]]:
    yield {"currency": "EUR"}


def make(**options: Any) -> MCPServer[Any]:
    """Return a new server."""
    mcp: MCPServer[Any] = MCPServer(
        "shop",
        title="The shop",
        instructions="Buy something.",
        version="1.2.3",
        website_url="https://shop.example",
        icons=[mt.Icon(src="https://shop.example/icon.png")],
        lifespan=opened,
        **options,
    )
    _add_tools(mcp)
    _add_others(mcp)
    return mcp


def _add_tools(mcp: MCPServer[Any]) -> None:  # noqa: C901
    @mcp.tool(title="Add", annotations=mt.ToolAnnotations(read_only_hint=True), meta={"own": 1})
    def add(a: int, b: Annotated[int, Field(description="the second one")] = 2) -> int:
        """Add two numbers."""
        return a + b

    @mcp.tool()
    async def find(name: str) -> Item:
        """Return structured content."""
        return Item(name=name, price=1.5)

    @mcp.tool(structured_output=False)
    def items() -> list[Item]:
        return [Item(name="tea"), Item(name="pot")]

    @mcp.tool()
    def picture() -> Image:
        return Image(data=PIXEL, format="png")

    @mcp.tool()
    def whole() -> mt.CallToolResult:
        return mt.CallToolResult(content=[mt.TextContent(type="text", text="hi")], _meta={"m": 1})

    @mcp.tool()
    async def tell(text: str, ctx: Context[Any, Any]) -> str:
        """Report progress and log something before the result."""
        await ctx.report_progress(1, 2, "half")
        await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)
        return f"{text} {ctx.request_context.lifespan_context['currency']}"

    @mcp.tool()
    def refuse() -> str:
        raise ToolError("not today")

    @mcp.tool()
    def crash() -> str:
        raise RuntimeError("a secret")

    @mcp.tool()
    def protocol_error() -> str:
        raise MCPError(-32001, "of the protocol", {"more": 1})

    @mcp.tool()
    async def elicit(ctx: Context[Any, Any]) -> str:
        return (await ctx.elicit("Sure?", Confirmation)).action

    @mcp.tool()
    async def buy(item: str, sure: Annotated[Confirmation, Resolve(ask)]) -> str:
        return f"{item}: {sure.sure}"

    @mcp.tool()
    def by_region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return region

    @mcp.tool()
    def total(prices: list[int]) -> int:
        return sum(prices)

    @mcp.tool()
    async def add_tool() -> str:
        mcp.add_tool(later)
        return "added"

    @mcp.tool()
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    @mcp.tool()
    def leave() -> str:
        raise SystemExit(3)

    @mcp.tool()
    async def leave_a_task() -> str:
        async def end() -> None:
            raise SystemExit(3)

        await asyncio.gather(asyncio.create_task(end()))
        return ""

    @mcp.tool()
    def thread() -> str:
        return threading.current_thread().name

    @mcp.tool()
    async def change(ctx: Context[Any, Any]) -> str:
        await ctx.notify_resource_updated("shop://today")
        return "changed"

    @mcp.tool()
    async def tell_session(text: str, ctx: Context[Any, Any]) -> str:
        """Send notifications that belong to no call."""
        await ctx.session.send_resource_updated(f"shop://{text}")
        await ctx.session.send_progress_notification(text, 1.0)
        return "told"


def later(text: str) -> str:
    """Return what a tool returns that is added while the server runs."""
    return text


def _add_others(mcp: MCPServer[Any]) -> None:  # noqa: C901
    @mcp.resource("shop://today", title="Today", mime_type="text/markdown", meta={"own": 2})
    def today() -> str:
        return "# Tea"

    @mcp.resource("shop://logo", mime_type="image/png")
    async def logo() -> bytes:
        return PIXEL

    @mcp.resource("shop://broken")
    def broken() -> str:
        raise RuntimeError("a secret")

    @mcp.resource("shop://items/{name}")
    def item(name: str) -> dict[str, str]:
        return {"name": name}

    @mcp.prompt(title="Greet")
    def greet(name: str, loud: bool = False) -> str:
        return f"Hello {name}{'!' if loud else ''}"

    @mcp.prompt()
    async def several() -> list[Any]:
        return [UserMessage("one"), UserMessage(Image(data=PIXEL, format="png"))]

    @mcp.prompt()
    def broken_prompt() -> str:
        raise RuntimeError("a secret")

    @mcp.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # of the SDK
    async def complete(ref: Any, argument: mt.CompletionArgument, context: Any) -> mt.Completion | None:
        if argument.name == "crash":
            raise RuntimeError("a secret")
        return mt.Completion(values=[f"{argument.value}da"], total=1, has_more=False)

    @mcp.custom_route("/hello", methods=["GET"])  # type: ignore[untyped-decorator]  # of the SDK
    async def hello(_: Request) -> Response:
        return PlainTextResponse("hello")


mcp = make()
