"""Tools that send requests to the client during a call (handshake protocol with a session)."""

from typing import Any

from fastmcp import Context
from fastmcp.tools import tool
from mcp_types import SamplingMessage, TextContent


@tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model to answer a prompt."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([question], max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content.text if isinstance(answer.content, TextContent) else answer.content}"


@tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for a name and an address."""
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return f"User response: {await _ask(ctx, message, properties, required=['username', 'email'])}"


@tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a default for each primitive type."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await _ask(ctx, 'Please review the defaults', properties)}"


@tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with each of the five forms of an enum."""
    plain = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    names = ["Option One", "Option Two", "Option Three"]
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await _ask(ctx, 'Please choose', properties)}"


async def _ask(ctx: Context, message: str, properties: dict[str, Any], required: list[str] | None = None) -> str:
    schema = {"type": "object", "properties": properties, "required": required or []}
    answer = await ctx.session.elicit(message, schema, related_request_id=ctx.request_id)
    return f"action={answer.action}, content={answer.content}"
