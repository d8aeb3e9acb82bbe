"""A FastMCP server with functions in every form that FastMCP accepts."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends
from fastmcp.prompts import Prompt
from fastmcp.resources import BinaryResource, Resource, ResourceContent, ResourceResult, ResourceTemplate
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool
from uncalled_for import Shared

_IMAGE = b"\x89PNG\xff"


def forms() -> dict[str, Callable[..., Any]]:  # noqa: C901  # one function for each form
    """Return functions with an optional argument `x`, each in another form. They share one connection."""
    opened: list[int] = []

    @asynccontextmanager
    async def connection() -> AsyncIterator[str]:
        opened.append(len(opened))
        yield f"connection {len(opened)}"

    def around(of: str = Shared(connection)) -> str:
        return f"around {of}"

    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        def plain(self, x: int = 1) -> str:
            return f"{self.name} {x}"

        async def waits(self, x: int = 1) -> str:
            return f"{self.name} {x}"

        def in_thread(self, ctx: Context, x: int = 1) -> str:
            return f"{self.name} {ctx.fastmcp.name} {x}"

        async def on_loop(self, ctx: Context, x: int = 1) -> str:
            return f"{self.name} {ctx.fastmcp.name} {x}"

        async def depends(self, x: int = 1, of: str = Depends(around), own: str = Shared(connection)) -> str:
            return f"{self.name} {of} {own} {x}"

        def items(self, ctx: Context, x: int = 2) -> Iterator[str]:
            yield from [f"{self.name} {ctx.fastmcp.name}"] * x

        @classmethod
        async def of_class(cls, ctx: Context, x: int = 1) -> str:
            return f"{cls.__name__} {ctx.fastmcp.name} {x}"

        @staticmethod
        def of_nothing(ctx: Context, x: int = 1) -> str:
            return f"{ctx.fastmcp.name} {x}"

    class Called(Shop):
        def __call__(self, ctx: Context, x: int = 1) -> str:
            return f"called {self.name} {ctx.fastmcp.name} {x}"

    class Awaited(Shop):
        async def __call__(self, ctx: Context, x: int = 1, of: str = Shared(connection)) -> str:
            return f"called {self.name} {ctx.fastmcp.name} {of} {x}"

    def three(a: int, b: "str", x: "int" = 1) -> "str":
        return f"{a} {b} {x}"

    async def finds(a: int, x: int = 1) -> str:
        return f"{a} {get_context().fastmcp.name} {x}"

    async def shared(x: int = 1, of: str = Shared(connection)) -> str:
        return f"{of} {x}"

    def annotated(of: Annotated[str, Shared(connection)], x: int = 1) -> str:
        return f"{of} {x}"

    async def calls(ctx: Context, x: int = 1) -> str:
        result = await ctx.fastmcp.call_tool("shared", {"x": x})
        return f"called: {result.structured_content}"

    one, two = Shop("one"), Shop("two")
    return {
        "plain": one.plain,
        "waits": one.waits,
        "in_thread": one.in_thread,
        "in_thread_of_two": two.in_thread,
        "on_loop": one.on_loop,
        "depends": one.depends,
        "items": one.items,
        "of_class": Shop.of_class,
        "of_nothing": Shop.of_nothing,
        "callable": Called("one"),
        "callable_two": Called("two"),
        "awaitable": Awaited("one"),
        "partial": functools.partial(three, 1, "b"),
        "partial_by_name": functools.partial(three, b="b", a=1),
        "partial_of_partial": functools.partial(functools.partial(three, 1), "b"),
        "partial_of_method": functools.partial(one.waits),
        "partial_finds": functools.partial(finds, 1),
        "shared": shared,
        "annotated": annotated,
        "calls": calls,
    }


def contents() -> dict[str, Callable[..., Any]]:
    """Return functions whose results only resources can have. Their argument `x` is optional."""

    class Files:
        async def one(self, ctx: Context, x: int = 1) -> ResourceResult:
            return ResourceResult(_IMAGE, meta={"server": ctx.fastmcp.name, "x": x})

        def several(self, x: int = 1) -> ResourceResult:
            image = ResourceContent(_IMAGE, mime_type="image/png", meta={"x": x})
            return ResourceResult([image, ResourceContent({"x": x}), ResourceContent("text")])

        def listed(self, x: int = 1) -> list[ResourceContent]:
            return [ResourceContent(_IMAGE), ResourceContent(str(x))]

        def raw(self, x: int = 1) -> bytes:
            return _IMAGE * x

        def another(self, x: int = 1) -> Resource:
            return BinaryResource(uri=f"other://{x}", data=_IMAGE)

    files = Files()
    return {name: getattr(files, name) for name in ("one", "several", "listed", "raw", "another")}


def make() -> FastMCP:
    """Return a server whose tools, resources, templates and prompts are these functions, and a server inside it."""
    server, inner = FastMCP("Forms"), FastMCP("Inner")
    for name, fn in forms().items():
        server.add_tool(Tool.from_function(fn, name=name))
        inner.add_tool(Tool.from_function(fn, name=name))
        server.add_prompt(Prompt.from_function(fn, name=name))
    for name, fn in (forms() | contents()).items():
        server.add_resource(Resource.from_function(fn, f"one://{name}", name=name))
        server.add_template(ResourceTemplate.from_function(fn, f"many://{name}/{{x}}", name=name))
    server.mount(inner, namespace="inner")
    return server
