"""Completions of an argument."""

from mcp_types import CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from anyreplica.components.marks import completion


@completion
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> list[str]:
    """Complete the first argument of one prompt."""
    if not isinstance(ref, PromptReference) or ref.name != "test_prompt_with_arguments" or argument.name != "arg1":
        return []
    return [word for word in ("paris", "park", "party", "test", "testing") if word.startswith(argument.value)]
