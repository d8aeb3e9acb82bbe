"""The server: the components of the pack, changes that tools announce, completions and tasks."""

from pathlib import Path
from types import ModuleType

from fastmcp import Context, FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers.filesystem_discovery import extract_components
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension
from fastmcp.tools import Tool
from mcp_types import CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from tests.conformance.pack import multi_round, prompts, resources, schemas, server_requests, tools
from tests.conformance.server import tasks

skills = SkillsDirectoryProvider(Path(__file__).parent / "skills", experimental_skills=True)
mcp = FastMCP("conformance", providers=[skills], dereference_schemas=False, cache_ttl=60)
mcp.add_extension(SkillsExtension(providers=[skills]))


def _take(module: ModuleType) -> None:
    for component in extract_components(module):
        match component:
            case Tool():
                mcp.add_tool(component)
            case Resource():
                mcp.add_resource(component)
            case ResourceTemplate():
                mcp.add_template(component)
            case Prompt():
                mcp.add_prompt(component)


for each in (multi_round, prompts, resources, schemas, server_requests, tools):
    _take(each)
tasks.add_to(mcp)


@mcp.completion
def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> list[str]:
    """Complete the first argument of one prompt."""
    if not isinstance(ref, PromptReference) or ref.name != "test_prompt_with_arguments" or argument.name != "arg1":
        return []
    return [word for word in ("paris", "park", "party", "test", "testing") if word.startswith(argument.value)]


@mcp.tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Notify all clients that listen that the list of prompts has changed."""
    await ctx.session.send_prompt_list_changed()
    return "Told."


@mcp.tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Notify all clients that listen that the list of tools has changed."""
    await ctx.session.send_tool_list_changed()
    return "Told."
