"""Two sample resources: one with a fixed URI, one with a URI template."""

from fastmcp.exceptions import NotFoundError
from fastmcp.resources import resource

_GREETINGS = {"en": "Hello", "de": "Hallo", "fr": "Bonjour", "es": "Hola"}


@resource("template://about", mime_type="text/markdown")
async def about() -> str:
    """Describe this server, as Markdown."""
    return (
        "# anyreplica\n\n"
        "An MCP server that runs as identical replicas. A replica keeps no state between requests, so any replica can "
        "answer any request.\n"
    )


@resource("template://greeting/{language}/{name}", mime_type="text/plain")
async def greeting(language: str, name: str) -> str:
    """Greet a person in their language.

    Args:
        language: Language of the greeting: `en`, `de`, `fr` or `es`.
        name: Name of the person to greet.

    Raises:
        NotFoundError: The language is not supported.
    """
    if language not in _GREETINGS:
        raise NotFoundError(f"no greeting in {language!r}; the languages are {', '.join(_GREETINGS)}")
    return f"{_GREETINGS[language]}, {name}!"
