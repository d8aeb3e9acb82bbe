"""One server for each kind of transform."""

from fastmcp import FastMCP
from fastmcp.server.transforms import Namespace, PromptsAsTools, ResourcesAsTools, ToolTransform, VersionFilter
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.tool_transform import ArgTransformConfig, ToolTransformConfig

renamed = FastMCP("renamed", transforms=[Namespace("inner")])
_WELCOME = ToolTransformConfig(
    name="welcome",
    description="Welcome somebody.",
    arguments={"name": ArgTransformConfig(name="guest")},
    tags={"friendly"},
)
renamed.add_transform(ToolTransform({"inner_greet": _WELCOME}))


@renamed.tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@renamed.tool
def leave(name: str) -> str:
    """Say goodbye."""
    return f"Bye, {name}!"


searched = FastMCP("searched", transforms=[BM25SearchTransform(max_results=1)])


@searched.tool
def boil_water(litres: float) -> str:
    """Boil water for tea."""
    return f"{litres} l boiled"


@searched.tool
def mow_lawn() -> str:
    """Mow the lawn in the garden."""
    return "mown"


listed = FastMCP("listed")
listed.add_transform(ResourcesAsTools(listed))
listed.add_transform(PromptsAsTools(listed))


@listed.resource("note://today")
def today() -> str:
    """Return the note of today."""
    return "water the plants"


@listed.prompt
def plan(topic: str) -> str:
    """Plan something."""
    return f"Make a plan for {topic}."


old = FastMCP("old", transforms=[VersionFilter(version_lt="2.0")])


@old.tool(version="1.0")
def convert(value: int) -> str:
    """Convert a value, in the old way."""
    return f"old {value}"


@old.tool(name="convert", version="2.0")
def convert_anew(value: int) -> str:
    """Convert a value, in the new way."""
    return f"new {value}"


partly = FastMCP("partly")


@partly.tool(tags={"admin"})
def erase() -> str:
    """Erase everything."""
    return "erased"


@partly.tool(tags={"admin", "safe"})
def count() -> int:
    """Count everything."""
    return 3


@partly.tool(version="1.0")
def report() -> str:
    """Report in the first version."""
    return "first"


@partly.tool(name="report", version="2.0")
def report_anew() -> str:
    """Report in the second version."""
    return "second"


partly.disable(tags={"admin"})
partly.enable(tags={"safe"})
partly.disable(keys={"tool:report@2.0"})
