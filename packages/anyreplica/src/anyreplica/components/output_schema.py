"""The check that a tool's result matches the tool's output schema, which clients read.

The MCP specification demands it (server/tools, "Output Schema"), and FastMCP does not check it. Most results need no
look at the schema: pydantic checks in less than 1 µs that a value has the declared type, from which FastMCP has derived
the schema.
"""

import logging
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.tools import FunctionTool
from fastmcp.tools.function_parsing import ParsedFunction
from fastmcp.utilities.types import get_cached_typeadapter
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic_core import SchemaValidator

logger = logging.getLogger(__name__)

_OF_TEXT = {
    "type": "object",
    "properties": {"result": {"type": "string"}},
    "required": ["result"],
    "x-fastmcp-wrap-result": True,
}
"""The output schema that FastMCP derives from the return type `str`."""

_LONGEST = 300
"""Maximum number of characters of a reason."""


class OutputSchema:
    """The output schema of a tool.

    Args:
        schema: the schema, as JSON.
        tool: the tool that has it.

    Attributes:
        is_text: whether the schema allows each text, and nothing else.
        wraps: whether FastMCP puts the value into an object, under the key `result`.
    """

    def __init__(self, schema: dict[str, Any], tool: FunctionTool) -> None:
        self._schema = schema
        self._tool = tool
        self.is_text = tool.return_type is str and schema == _OF_TEXT
        self.wraps = bool(schema.get("x-fastmcp-wrap-result"))

    @cached_property
    def has_type(self) -> Callable[[Any], bool]:
        """A function that returns whether a value has the declared type, and so matches the schema.

        False means: look at the schema. It is always False if the author has written the schema. A model is trusted,
        because it has checked its values itself.
        """
        tool = self._tool
        try:
            if ParsedFunction.from_function(tool.fn, validate=False).output_schema == self._schema:
                return _validating(get_cached_typeadapter(tool.return_type))
            _ = self._first_error  # made before the first call, which needs it
        except Exception:  # pydantic cannot use the type
            logger.debug("tool %r: the declared type cannot be used", tool.name, exc_info=True)
        return lambda _: False

    def problem(self, plain: Any, *, is_content: bool = False) -> str:
        """Return where and why a value does not match the schema; empty if it matches.

        Args:
            plain: the value, as plain data.
            is_content: whether this is structured content, in which FastMCP has wrapped the value.
        """
        if is_content and plain is None:
            return "it has no structured content"
        content = {"result": plain} if self.wraps and not is_content else plain
        try:
            error = self._first_error(content)
        except Exception:  # the author's schema is invalid, or refers to another document
            logger.debug("tool %r: the output schema cannot be used", self._tool.name, exc_info=True)
            return ""
        if error is None:
            return ""
        path = [str(each) for each in error.absolute_path]
        if error.validator == "required":
            path += [each for each in error.validator_value if each not in error.instance][:1]
        return f"{'.'.join(path) or 'structured content'}: {error.message}"[:_LONGEST]

    def check(self, content: Any) -> None:
        """Check structured content; raise ToolError if it does not match the schema."""
        if problem := self.problem(content, is_content=True):
            raise self.error(problem)

    def error(self, problem: str) -> ToolError:
        """Log that a result does not match the schema, and return the error. Its text names the tool and the field."""
        text = f"tool {self._tool.name!r} returned a value that does not match its output schema: {problem}"
        logger.warning("%s", text)
        return ToolError(text, log_level=logging.DEBUG)

    @cached_property
    def _first_error(self) -> Callable[[Any], Any]:
        """A function that returns the first error of structured content; None if there is none."""
        # Hardly any server needs this package, and its import takes 0.1 s.
        from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # noqa: PLC0415
        from jsonschema.exceptions import best_match  # type: ignore[import-untyped]  # noqa: PLC0415
        from jsonschema.validators import validator_for  # type: ignore[import-untyped]  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415

        cls = validator_for(self._schema, default=Draft202012Validator)
        errors = cls(self._schema, registry=Registry()).iter_errors  # an empty registry loads no other documents
        return lambda content: best_match(islice(errors(content), 1))


def _validating(adapter: Any) -> Callable[[Any], bool]:
    validate = SchemaValidator(_checking_dataclasses(adapter.core_schema)).validate_python

    def has_type(value: Any) -> bool:
        try:
            validate(value, strict=True)
        except Exception:  # noqa: BLE001  # a validator of the author may raise any error
            return False
        return True

    return has_type


def _checking_dataclasses(schema: Any) -> Any:
    """Return a core schema that also checks the fields of dataclasses that pydantic has not checked when made."""
    if isinstance(schema, list | tuple):
        return type(schema)(_checking_dataclasses(each) for each in schema)
    if not isinstance(schema, dict):
        return schema
    copied = {key: _checking_dataclasses(value) for key, value in schema.items()}
    if schema.get("type") == "dataclass" and not is_pydantic_dataclass(schema["cls"]):
        return {**copied, "revalidate_instances": "always", "post_init": False}
    return copied
