"""Tools that ask APIs (`apis.py`), and that reshape and check what came of it."""

from functools import partial
from typing import Annotated

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from mcp_swarm import downstream
from pydantic import Field, JsonValue
from pydantic_core import from_json, to_json

from examples.gateway import apart, apis
from examples.gateway.transport import CheckedTransport

_MOST_BYTES = 1024 * 1024
_APIS = apis.load()
_CLIENT = downstream.client(partial(CheckedTransport, _APIS.networks))


@tool(annotations={"readOnlyHint": True, "openWorldHint": True})
async def call_external_api(url: str, query: dict[str, str | int | float | bool] | None = None) -> JsonValue:
    """Get a JSON document from one of the APIs that this server may ask.

    Args:
        url: Where it is, as in "https://api.example.com/v1/users/42": names as they are, not percent-encoded. An
            error tells which URLs there are.
        query: Parameters by name, as in {"page": 2}.

    Raises:
        ToolError: the URL is none that may be asked, or there is no such document; the message says why.
    """
    api, where = _APIS.find(url)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {api.token}"} if api.token else {})
    reply = await _CLIENT.get(where, params=query or {}, headers=headers, max_bytes=_MOST_BYTES)
    try:
        document: JsonValue = from_json(reply.content, allow_inf_nan=False)
    except ValueError:
        raise ToolError("the API answered with something that is no JSON") from None
    if api.token and to_json(api.token)[1:-1] in to_json(document):  # as of a page that shows what it was sent
        raise ToolError("the API's answer holds a secret of this server's, and isn't shown")
    return document


@tool(annotations={"readOnlyHint": True, "openWorldHint": False})
async def transform_data(data: JsonValue, expression: Annotated[str, Field(max_length=2000)]) -> JsonValue:
    """Pick, rename, filter, sort or group parts of a JSON document by a JMESPath expression (https://jmespath.org).

    Besides JMESPath's functions there is group_by(items, &expression), which gives an object of arrays.

    Args:
        data: The document.
        expression: As in "users[?age > `30`].{name: name, mail: contact.mail} | sort_by(@, &name)".

    Raises:
        ToolError: the expression is none, doesn't fit the data, or takes too much time or memory.
    """
    result: JsonValue = await apart.work("transform", data=data, expression=expression)
    return result


@tool(annotations={"readOnlyHint": True, "openWorldHint": False})
async def validate_schema(data: JsonValue, json_schema: dict[str, JsonValue] | bool) -> dict[str, JsonValue]:
    """Check a JSON document by a JSON Schema; without "$schema" in it, by draft 2020-12.

    Args:
        data: The document.
        json_schema: The schema; what it refers to must be within it.

    Returns:
        Whether it is "valid", and its first 20 "errors", each with a "path" and a "message".

    Raises:
        ToolError: the schema is none, refers to another document, or takes too much time or memory.
    """
    result: dict[str, JsonValue] = await apart.work("validate", data=data, schema=json_schema)
    return result
