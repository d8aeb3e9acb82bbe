"""Tools whose input schemas contain more than types."""

from typing import Annotated, Any

from fastmcp.tools import Tool, tool
from pydantic import Field

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


async def _reach(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "",  # noqa: N803  # the suite's name
    phone: str = "",
    email: str = "",
) -> str:
    """Return how to reach a person."""
    return f"{name} {address or ''} {contactMethod}: {phone or email}"


json_schema_2020_12_tool = Tool.from_function(_reach, name="json_schema_2020_12_tool").model_copy(
    update={"parameters": _SCHEMA}
)


@tool
async def header_parameters(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], query: str = ""
) -> str:
    """Take an argument that a 2026-07-28 client repeats in the header Mcp-Param-Region."""
    return f"{query} in {region}"
