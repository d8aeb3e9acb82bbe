#!/usr/bin/env python3
"""The official SDK client against a running server: connect, list, call, read, and the errors.

    python test_mcp_client.py --url http://localhost:8150/mcp --era auto --rapid 30

The tests of mcp-swarm run the same steps, in both protocol families, against three local replicas.
"""

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

FAMILIES = {"auto": "auto", "legacy": "legacy", "modern": "2026-07-28"}


HINTS = {
    0: "Is a server running at {url}? Start one with: make up",
    401: "401: the server wants a bearer token; give --token or set MCP_TOKEN.",
    404: "404: there is no endpoint at {url}; the path is /mcp.",
    405: "405: there is no endpoint at {url}; the path is /mcp.",
}
"""What to do when no connection came about, by the last HTTP status (0: none)."""


class Failed(Exception):
    """A step's outcome isn't what it must be."""


class Session:
    """One client, the replicas that served it, and the steps it takes."""

    def __init__(self, url: str, family: str, token: str | None = None) -> None:
        self.url = url
        self.family = family
        self.served: list[str] = []
        self.status = 0
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def run(self, *, rapid: int = 0, report: Callable[[str], None] = print) -> int:
        """Take every step; returns how many failed. `report` gets a line a step."""
        failed = 0
        async with self.http() as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=FAMILIES[self.family], cache=None) as client:
                report(f"✓ connect: protocol {client.protocol_version}{self._by()}")
                for step in (
                    tools,
                    echo,
                    arithmetic,
                    resources,
                    prompts,
                    unknown_tool,
                    invalid_argument,
                    tool_error,
                ):
                    failed += await self._take(step, client, report)
        if rapid:
            failed += await self._rapid(rapid, report)
        return failed

    def http(self) -> httpx2.AsyncClient:
        """An HTTP client that notes which replica answers."""

        async def note(response: httpx2.Response) -> None:
            self.served.append(response.headers.get("X-Served-By", "?"))
            self.status = response.status_code

        return httpx2.AsyncClient(headers=self.headers, event_hooks={"response": [note]}, timeout=30)

    async def _take(
        self, step: Callable[[Client], Awaitable[str]], client: Client, report: Callable[[str], None]
    ) -> int:
        name = step.__name__.replace("_", " ")
        try:
            outcome = await step(client)
        except Exception as error:  # noqa: BLE001  # whatever it is, the step failed, and the next one may not
            report(f"✗ {name}: {str(error) or type(error).__name__}{self._by()}")
            return 1
        report(f"✓ {name}: {outcome}{self._by()}")
        return 0

    def _by(self) -> str:
        served, self.served = self.served, []
        return f"  [{', '.join(dict.fromkeys(served))}]" if served else ""

    async def _rapid(self, count: int, report: Callable[[str], None]) -> int:
        """`count` clients at once, each with a connection of its own, as a fleet of agents would."""

        async def once(number: int) -> str:
            async with self.http() as http:
                transport = streamable_http_client(self.url, http_client=http)
                async with Client(transport, mode=FAMILIES[self.family], cache=None) as client:
                    message = f"rapid {number}"
                    expect(text_of(await client.call_tool("echo", {"message": message})), message)
            return ""

        outcomes = await asyncio.gather(*(once(number) for number in range(count)), return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        spread = ", ".join(f"{name} {requests}" for name, requests in sorted(Counter(self.served).items()))
        report(f"{'✗' if errors else '✓'} rapid: {count - len(errors)} of {count} clients served; requests: {spread}")
        for error in errors[:3]:
            report(f"    {error!r}")
        return len(errors)


def expect(actual: object, wanted: object) -> None:
    """Raise Failed unless both are equal."""
    if actual != wanted:
        raise Failed(f"expected {wanted!r}, got {actual!r}")


def text_of(result: CallToolResult) -> str:
    """A result's first text."""
    (content, *_) = result.content
    if not isinstance(content, TextContent):
        raise Failed(f"expected text, got {content.type}")
    return content.text


async def tools(client: Client) -> str:
    """List the tools."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    missing = {"echo", "add", "server_info"} - set(names)
    if missing:
        raise Failed(f"not listed: {', '.join(sorted(missing))}")
    return ", ".join(names)


async def echo(client: Client) -> str:
    """Call a tool, with text that isn't ASCII."""
    result = await client.call_tool("echo", {"message": "hällo 🌍", "repeat": 2})
    expect(text_of(result), "hällo 🌍 hällo 🌍")
    return text_of(result)


async def arithmetic(client: Client) -> str:
    """Call a tool with a structured result."""
    result = await client.call_tool("add", {"a": 2, "b": 40})
    expect(result.structured_content, {"result": 42})
    return f"2 + 40 = {text_of(result)}"


async def resources(client: Client) -> str:
    """Read a static and a templated resource."""
    (about,) = (await client.read_resource("template://about")).contents
    (greeting,) = (await client.read_resource("template://greeting/de/Welt")).contents
    if not isinstance(about, TextResourceContents) or not isinstance(greeting, TextResourceContents):
        raise Failed("expected text")
    expect(greeting.text, "Hallo, Welt!")
    return f"{len(about.text)} characters of {about.mime_type}; {greeting.text}"


async def prompts(client: Client) -> str:
    """Get a prompt."""
    (message,) = (await client.get_prompt("summarize", {"text": "Swarm", "sentences": "2"})).messages
    if not isinstance(message.content, TextContent) or "at most 2 sentences" not in message.content.text:
        raise Failed(f"unexpected prompt {message.content!r}")
    return message.content.text.splitlines()[0]


async def unknown_tool(client: Client) -> str:
    """Call a tool that isn't there."""
    answer = await refused(client, "no_such_tool", {})
    expect(answer, "Unknown tool: 'no_such_tool'")
    return answer


async def invalid_argument(client: Client) -> str:
    """Call a tool with an argument of the wrong type."""
    answer = await refused(client, "add", {"a": "one", "b": 2})
    expect("validation error" in answer, True)
    return answer


async def tool_error(client: Client) -> str:
    """Call a tool that refuses its argument."""
    answer = await refused(client, "echo", {"message": "x", "repeat": 11})
    expect(answer, "repeat must be from 1 to 10, not 11")
    return answer


async def refused(client: Client, name: str, arguments: dict[str, object]) -> str:
    """Call a tool that must answer with an error; returns the error's first line."""
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return str(error).splitlines()[0]
    if not result.is_error:
        raise Failed(f"expected an error, got {result.content!r}")
    return text_of(result).splitlines()[0]


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Try a running server with the official MCP client, step by step.",
        epilog="Exit codes: 0 every step passed; 1 a step failed; 2 wrong arguments or no server at the URL.",
    )
    parser.add_argument(
        "--url", default="http://localhost:8150/mcp", help="the server's endpoint (default: %(default)s)"
    )
    parser.add_argument(
        "--rapid", type=_count, default=0, metavar="N", help="then N clients at once, each on its own connection"
    )
    parser.add_argument(
        "--era",
        dest="family",
        choices=FAMILIES,
        default="auto",
        help="protocol: handshake, 2026-07-28, or what the server has",
    )
    parser.add_argument("--token", default=os.environ.get("MCP_TOKEN"), help="bearer token (default: $MCP_TOKEN)")
    options = parser.parse_args()
    session = Session(options.url, options.family, options.token)
    try:
        failed = asyncio.run(session.run(rapid=options.rapid))
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  # the SDK wraps what went wrong in groups of its own making
        hint = HINTS.get(session.status, f"is this an MCP server's endpoint? {options.url} answered {session.status}")
        print(f"✗ connect: {innermost(error)}\n  {hint.format(url=options.url)}", file=sys.stderr)
        return 2
    print("All steps passed." if not failed else f"{failed} failed.")
    return 1 if failed else 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def innermost(error: BaseException) -> BaseException:
    """The first plain exception within groups of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
