"""Completions of an argument."""

from mcp_types import CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from anyreplica.components.marks import completion


@completion
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> list[str]:
    """Complete the first argument of one prompt, and the variable of one template."""
    words: tuple[str, ...] = ()
    if isinstance(ref, ResourceTemplateReference):
        if (ref.uri, argument.name) == ("test://template/{id}/data", "id"):
            words = ("red-1", "red-2", "blue-1")
    elif (ref.name, argument.name) == ("test_prompt_with_arguments", "arg1"):
        words = ("paris", "park", "party", "test", "testing")
    return [word for word in words if word.startswith(argument.value)]
