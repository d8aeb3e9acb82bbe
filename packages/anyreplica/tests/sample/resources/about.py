"""A static resource and a resource template."""

from fastmcp.exceptions import NotFoundError
from fastmcp.resources import resource

_GREETINGS = {"en": "Hello", "de": "Hallo", "fr": "Bonjour", "es": "Hola"}


@resource("template://about", mime_type="text/markdown")
async def about() -> str:
    """Return a description of this server as Markdown."""
    return (
        "# anyreplica\n\n"
        "An MCP server of identical replicas. None of them remembers a request, so any of them can answer the next.\n"
    )


@resource("template://greeting/{language}/{name}", mime_type="text/plain")
async def greeting(language: str, name: str) -> str:
    """Return a greeting.

    Args:
        language: `en`, `de`, `fr` or `es`.
        name: Name of the person to greet.

    Raises:
        NotFoundError: there is no greeting in that language.
    """
    if language not in _GREETINGS:
        raise NotFoundError(f"no greeting in {language!r}; there is one in {', '.join(_GREETINGS)}")
    return f"{_GREETINGS[language]}, {name}!"
