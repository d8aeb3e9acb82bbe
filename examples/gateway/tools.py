"""Tools that call APIs (`apis.py`) and that transform and validate JSON."""

from functools import partial
from typing import Annotated

from anyreplica import downstream
from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from httpx2 import Response
from pydantic import Field, JsonValue
from pydantic_core import from_json, to_json

from examples.gateway import apart, apis
from examples.gateway.transport import CheckedTransport

_ACCEPT = {"Accept": "application/json"}
_MOST_BYTES = 1024 * 1024
_APIS = apis.load()
_CLIENT = downstream.client(partial(CheckedTransport, _APIS.networks))


@tool(annotations={"readOnlyHint": True, "openWorldHint": True})
async def call_external_api(url: str, query: dict[str, str | int | float | bool] | None = None) -> JsonValue:
    """Get a JSON document from one of the APIs that this server may call.

    Args:
        url: URL of the document, such as "https://api.example.com/v1/users/42", not percent-encoded. If the URL is
            not allowed, the error lists the allowed URLs.
        query: Query parameters by name, such as {"page": 2}.

    Raises:
        ToolError: The URL is not allowed, or the API returned no document; the message gives the reason.
    """
    api, where = _APIS.find(url)
    headers = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    reply = await _CLIENT.get(where, params=query or {}, headers=_ACCEPT | headers, max_bytes=_MOST_BYTES)
    return _document(reply)


@tool(annotations={"readOnlyHint": True, "openWorldHint": True})
async def call_external_api_as_user(url: str, query: dict[str, str | int | float | bool] | None = None) -> JsonValue:
    """Get a JSON document that the user of this server may read from one of the APIs that this server may call.

    The API sees the user, and decides what this user may read.

    Args:
        url: URL of the document, such as "https://api.example.com/v1/me", not percent-encoded. If the URL is not
            allowed, the error lists the allowed URLs.
        query: Query parameters by name, such as {"page": 2}.

    Raises:
        ToolError: The URL is not allowed, the user has no token for the API, or the API returned no document; the
            message gives the reason.
    """
    _, where = _APIS.find(url)
    # Without exchange=True, a call of an API without token exchange would be anonymous.
    reply = await _CLIENT.get(where, params=query or {}, headers=_ACCEPT, max_bytes=_MOST_BYTES, exchange=True)
    return _document(reply)


def _document(reply: Response) -> JsonValue:
    try:
        document: JsonValue = from_json(reply.content, allow_inf_nan=False)
    except ValueError:
        raise ToolError("The API's reply is not JSON.") from None
    token = reply.request.headers.get("Authorization", "").removeprefix("Bearer ")
    if token and to_json(token)[1:-1] in to_json(document):  # Some APIs return the headers of the request.
        raise ToolError("The API's reply contains a secret of this server and is not shown.")
    return document


@tool(annotations={"readOnlyHint": True, "openWorldHint": False})
async def transform_data(data: JsonValue, expression: Annotated[str, Field(max_length=2000)]) -> JsonValue:
    """Select, rename, filter, sort or group parts of a JSON document with a JMESPath expression (https://jmespath.org).

    The function group_by(items, &expression) is available in addition to JMESPath's functions. It returns an object
    of arrays.

    Args:
        data: The document.
        expression: The expression, such as "users[?age > `30`].{name: name, mail: contact.mail} | sort_by(@, &name)".

    Raises:
        ToolError: The expression is invalid, does not fit the data, or needs too much time or memory.
    """
    result: JsonValue = await apart.work("transform", data=data, expression=expression)
    return result


@tool(annotations={"readOnlyHint": True, "openWorldHint": False})
async def validate_schema(data: JsonValue, json_schema: dict[str, JsonValue] | bool) -> dict[str, JsonValue]:
    """Validate a JSON document against a JSON Schema (draft 2020-12 if the schema has no "$schema").

    Args:
        data: The document.
        json_schema: The schema; all its references must be inside the schema.

    Returns:
        "valid" (true or false) and the first 20 "errors", each with a "path" and a "message".

    Raises:
        ToolError: The schema is invalid, refers to another document, or needs too much time or memory.
    """
    result: dict[str, JsonValue] = await apart.work("validate", data=data, schema=json_schema)
    return result
