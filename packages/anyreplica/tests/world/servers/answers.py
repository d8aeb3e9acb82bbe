"""Everything that a client learns from a server: lists, schemas, and the results of calls."""

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

Calls = Sequence[tuple[str, dict[str, Any]]]
Mode = Literal["legacy", "2026-07-28"]
Answers = Mapping[str, Any]
"""What was asked, and the answer as JSON data."""


def answers(url: str, mode: Mode, calls: Calls) -> Answers:
    """Ask for all lists, read all resources, render all prompts without arguments, and call tools, also wrongly."""
    return asyncio.run(asyncio.wait_for(_answers(url, mode, calls), 300))


async def _answers(url: str, mode: Mode, calls: Calls) -> Answers:
    found: dict[str, Any] = {}

    async def ask(what: str, asked: Awaitable[Any]) -> Any:
        try:
            answer = await asked
        except Exception as error:  # noqa: BLE001  # an error is an answer, too
            found[what] = {"error": str(error)}
            return []
        found[what] = _plain(answer)
        return answer

    async with Client(StreamableHttpTransport(f"{url}/mcp"), mode=mode, cache=False) as client:
        if mode == "legacy":
            assert client.initialize_result
            found["initialize"] = _plain(client.initialize_result)
        found["ping"] = await client.ping() if mode == "legacy" else True
        tools = await ask("tools", client.list_tools())
        resources = await ask("resources", client.list_resources())
        await ask("resource templates", client.list_resource_templates())
        prompts = await ask("prompts", client.list_prompts())
        for resource in resources:
            await ask(f"read {resource.uri}", client.read_resource(resource.uri))
        for prompt in prompts:
            if not any(each.required for each in prompt.arguments or ()):
                await ask(f"render {prompt.name}", client.get_prompt(prompt.name))
        wrong = next((tool.name for tool in tools if tool.input_schema.get("required")), "no_such_tool")
        for tool, arguments in (*calls, (wrong, {}), ("no_such_tool", {})):
            await ask(f"call {tool} {arguments}", client.call_tool_mcp(tool, arguments))
    return found


def _plain(answer: Any) -> Any:
    """Return JSON data. Each list of named components is sorted by name, because its order has no meaning."""
    if isinstance(answer, list):
        return sorted((_plain(each) for each in answer), key=lambda each: (each.get("name") or "", str(each)))
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def differences(theirs: Answers, ours: Answers, ignored: str = "") -> dict[str, tuple[Any, Any]]:
    """Return what differs: its place, and both values. Texts that `ignored` matches may differ."""
    found: dict[str, tuple[Any, Any]] = {}
    _compare("", _without(ignored, theirs), _without(ignored, ours), found)
    return found


def _without(ignored: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(ignored, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without(ignored, each) for each in value]
    return re.sub(ignored, "…", value) if ignored and isinstance(value, str) else value


def _compare(place: str, theirs: Any, ours: Any, found: dict[str, tuple[Any, Any]]) -> None:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in {**theirs, **ours}:
            _compare(f"{place} > {name}".removeprefix(" > "), theirs.get(name), ours.get(name), found)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (each, other) in enumerate(zip(theirs, ours, strict=True)):
            named = each.get("name", number) if isinstance(each, Mapping) else number
            _compare(f"{place} > {named}", each, other, found)
    elif theirs != ours:
        found[place] = (theirs, ours)
