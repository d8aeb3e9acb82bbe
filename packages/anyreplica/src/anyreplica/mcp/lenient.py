"""The changes to the arguments of calls that `DROP_UNKNOWN_ARGUMENTS` and `PARSE_JSON_ARGUMENTS` ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from starlette.types import Receive, Scope, Send

from anyreplica.http import json_values
from anyreplica.http.request_record import RequestRecord
from anyreplica.http.responses import Refused
from anyreplica.mcp.call import Call
from anyreplica.mcp.endpoint import McpEndpoint
from anyreplica.mcp.message import Request
from anyreplica.mcp.planning import Plans
from anyreplica.mcp.server_setup import ServerSetup
from anyreplica.settings import CoreSettings

_ANY = frozenset({"string", "array", "object"})
"""The types of a schema that accepts any value, or that this module does not understand."""
_DEEPEST = 10
"""Maximum number of references that lead from a parameter to its type. A reference may lead to itself."""


@dataclass(frozen=True, slots=True)
class _Form:
    """What the input schema of a tool says about its arguments."""

    known: frozenset[str] | None
    """The names of the parameters. None: the tool accepts other arguments, too."""
    wanted: Mapping[str, tuple[type, ...]]
    """The types of the parameters that accept a list or an object but no text."""


def endpoint_class(settings: CoreSettings) -> type[McpEndpoint]:
    """Return the class of the endpoint. With the default settings, a call takes no step of this module."""
    return LenientEndpoint if settings.drop_unknown_arguments or settings.parse_json_arguments else McpEndpoint


class LenientEndpoint(McpEndpoint):
    """An endpoint that changes the arguments of a call before any path answers it.

    Each path and all middleware get the changed arguments. The audit log has those that the client sent.
    """

    def __init__(self, setup: ServerSetup, settings: CoreSettings, *more: Any) -> None:
        super().__init__(setup, settings, *more)
        self._drops = settings.drop_unknown_arguments
        self._parses = settings.parse_json_arguments
        self._most = settings.max_body_values
        self._plans: Plans | None = None
        """The plans that `_forms` belong to."""
        self._forms: dict[str, _Form] = {}

    def _call(
        self, request: Request, takes_stream: bool, record: RequestRecord, scope: Scope, receive: Receive, send: Send
    ) -> Call:
        call = super()._call(request, takes_stream, record, scope, receive, send)
        if request.method == "tools/call" and request.params is not None:
            self._change(request, request.params)
        return call

    def _change(self, request: Request, params: dict[str, Any]) -> None:
        """Change the arguments of a call of a tool that the server lists.

        Raises:
            Refused: 413, the arguments have too many JSON values.
        """
        name, arguments = params.get("name"), params.get("arguments")
        form = self._form(name) if type(name) is str else None
        if form is None or type(arguments) is not dict:
            return
        if self._drops and form.known is not None and not arguments.keys() <= form.known:
            arguments = {key: value for key, value in arguments.items() if key in form.known}
        if self._parses:
            texts = {key: value for key, value in arguments.items() if type(value) is str and key in form.wanted}
            if texts:
                self._count(request, texts)
                arguments = arguments | {key: _parsed(text, form.wanted[key]) for key, text in texts.items()}
        params["arguments"] = arguments

    def _count(self, request: Request, texts: Mapping[str, str]) -> None:
        """Apply the limits of a body to the texts: MAX_BODY_VALUES and MAX_BUFFERED_BYTES."""
        whole = ",".join(texts.values()).encode(errors="replace")
        if json_values.count(whole, self._most) > self._most:
            text = f"Arguments too large: the limit is {self._most} JSON values (MAX_BODY_VALUES)."
            raise Refused(413, text, identity=request.id)
        if request.memory:
            request.memory += json_values.memory_of(whole)

    def _form(self, name: str) -> _Form | None:
        if self._plans is not self.paths.plans:  # the components have changed
            self._plans = self.paths.plans
            self._forms = {tool: _form(schemas) for tool, schemas in self._plans.schemas.items()}
        return self._forms.get(name)


def _form(schemas: Sequence[Mapping[str, Any]]) -> _Form:
    """Return the form of a tool. Each of its versions has a schema."""
    types: dict[str, frozenset[str]] = {}
    for schema in schemas:
        for name, parameter in schema.get("properties", {}).items():
            types[name] = types.get(name, frozenset()) | _types(parameter, schema.get("$defs", {}))
    wanted = {
        name: tuple(kind for word, kind in (("array", list), ("object", dict)) if word in accepted)
        for name, accepted in types.items()
        if "string" not in accepted
    }
    is_closed = all(each.get("additionalProperties") is False and "patternProperties" not in each for each in schemas)
    return _Form(frozenset(types) if is_closed else None, {name: kinds for name, kinds in wanted.items() if kinds})


def _types(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> frozenset[str]:
    """Return the JSON types that a schema accepts."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return _ANY
    if "$ref" in schema:
        return _types(definitions.get(str(schema["$ref"]).removeprefix("#/$defs/")), definitions, depth + 1)
    if "type" in schema:
        named = schema["type"]
        return frozenset([named] if isinstance(named, str) else named)
    parts = schema.get("anyOf") or schema.get("oneOf")
    if not parts:
        return _ANY
    return frozenset[str]().union(*(_types(part, definitions, depth + 1) for part in parts))


def _parsed(text: str, wanted: tuple[type, ...]) -> Any:
    """Return the list or the object in a JSON text; return the text if it has none of the wanted types."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return value if type(value) in wanted else text
