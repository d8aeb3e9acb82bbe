#!/usr/bin/env python3
"""Check of a running server with the client of the MCP SDK: it connects, lists, calls, reads and provokes errors.

    python test_mcp_client.py --url http://localhost:8150/mcp --protocol auto --rapid 30

The tests of anyreplica run this script against three local replicas, with each value of `--protocol`.
"""

import argparse
import asyncio
import os
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

FAMILIES = {"auto": "auto", "legacy": "legacy", "modern": "2026-07-28"}
"""The SDK's mode for each value of --protocol."""

HINTS = {
    0: "No server answers at {url}. Start a server with `make up`, or give the right --url.",
    401: "HTTP 401: the server requires a bearer token; give --token or set MCP_TOKEN.",
    404: "HTTP 404: {url} is not an MCP endpoint; the path is usually /mcp.",
    405: "HTTP 405: {url} is not an MCP endpoint; the path is usually /mcp.",
}
"""What to do after a failed connection, by the last HTTP status (0: no response)."""


def project_port() -> str:
    """Return the port of this project, from the answers to copier's questions; without answers, return 8150."""
    answers = Path(__file__).with_name(".copier-answers.yml")
    chosen = re.search(r"^port: (\d+)$", answers.read_text(), re.MULTILINE) if answers.is_file() else None
    return chosen[1] if chosen else "8150"


class Failed(Exception):
    """A step had an unexpected result."""


class Session:
    """A client that runs all steps and records which replicas answer."""

    def __init__(self, url: str, family: str, token: str | None = None) -> None:
        self.url = url
        self.family = family
        self.served: list[str] = []
        self.status = 0
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def run(self, *, rapid: int = 0, report: Callable[[str], None] = print) -> int:
        """Run every step and return the number of failures.

        Args:
            rapid: Number of parallel clients after the steps; 0: none.
            report: Called with one line per step.
        """
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
        """Return an HTTP client that records which replica answers."""

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
        except Exception as error:  # noqa: BLE001  # After any error the next step must still run.
            report(f"✗ {name}: {str(error) or type(error).__name__}{self._by()}")
            return 1
        report(f"✓ {name}: {outcome}{self._by()}")
        return 0

    def _by(self) -> str:
        served, self.served = self.served, []
        return f"  [{', '.join(dict.fromkeys(served))}]" if served else ""

    async def _rapid(self, count: int, report: Callable[[str], None]) -> int:
        """Connect `count` clients at the same time, each with its own connection; return the number of failures."""

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
    """Raise `Failed` if the two values differ."""
    if actual != wanted:
        raise Failed(f"expected {wanted!r}, got {actual!r}")


def text_of(result: CallToolResult) -> str:
    """Return the text of a result's first content block."""
    (content, *_) = result.content
    if not isinstance(content, TextContent):
        raise Failed(f"expected text, got {content.type}")
    return content.text


async def tools(client: Client) -> str:
    """List the tools."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    missing = {"echo", "add", "server_info"} - set(names)
    if missing:
        raise Failed(f"missing tools: {', '.join(sorted(missing))}")
    return ", ".join(names)


async def echo(client: Client) -> str:
    """Call a tool with text that is not ASCII."""
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
    """Call a tool that does not exist."""
    answer = await refused(client, "no_such_tool", {})
    expect(answer, "Unknown tool: 'no_such_tool'")
    return answer


async def invalid_argument(client: Client) -> str:
    """Call a tool with an argument of the wrong type."""
    answer = await refused(client, "add", {"a": "one", "b": 2})
    expect("validation error" in answer, True)
    return answer


async def tool_error(client: Client) -> str:
    """Call a tool with an argument that the tool refuses."""
    answer = await refused(client, "echo", {"message": "x", "repeat": 11})
    expect(answer, "repeat must be from 1 to 10, not 11")
    return answer


async def refused(client: Client, name: str, arguments: dict[str, object]) -> str:
    """Call a tool that must answer with an error, and return the first line of the error."""
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return str(error).splitlines()[0]
    if not result.is_error:
        raise Failed(f"expected an error, got {result.content!r}")
    return text_of(result).splitlines()[0]


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        description="""\
Check a running server with the client of the MCP SDK. The script connects,
lists and calls tools, reads resources, gets a prompt and provokes errors. The
server must have the tools, resources and prompts of the template (server/).""",
        epilog="""\
examples:
  test_mcp_client.py
  test_mcp_client.py --url https://mcp.example.com/mcp --protocol modern \\
    --rapid 30

exit codes:
  0    every step passed
  1    a step failed
  2    wrong arguments, or no server at the URL
  130  Ctrl-C
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    url = f"http://localhost:{os.environ.get('PORT') or project_port()}/mcp"
    parser.add_argument("--url", default=url, help="URL of the server's MCP endpoint (default: %(default)s)")
    parser.add_argument(
        "--protocol",
        dest="family",
        choices=FAMILIES,
        default="auto",
        help="protocol version: legacy (2025-11-25 and older, with a handshake), modern (2026-07-28), or auto, which "
        "uses modern if the server supports it (default: %(default)s)",
    )
    # The former name of --protocol.
    parser.add_argument("--era", dest="family", choices=FAMILIES, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument(
        "--rapid",
        type=_count,
        default=0,
        metavar="N",
        help="after all other steps, connect N clients at the same time, each with its own connection (default: 0)",
    )
    parser.add_argument(
        "--token",
        default=os.environ.get("MCP_TOKEN"),
        metavar="TOKEN",
        help="bearer token (default: the environment variable MCP_TOKEN)",
    )
    options = parser.parse_args()
    session = Session(options.url, options.family, options.token)
    try:
        failed = asyncio.run(session.run(rapid=options.rapid))
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  # The SDK wraps errors in its own exception groups.
        hint = HINTS.get(session.status, "HTTP {status}: check that {url} is an MCP endpoint.")
        text = hint.format(url=options.url, status=session.status)
        print(f"✗ connect: {innermost(error)}\n  {text}", file=sys.stderr)
        return 2
    print("All steps passed." if not failed else "1 failure." if failed == 1 else f"{failed} failures.")
    return 1 if failed else 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def innermost(error: BaseException) -> BaseException:
    """Return the first exception that is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
