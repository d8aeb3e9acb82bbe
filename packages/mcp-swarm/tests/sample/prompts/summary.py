"""A prompt that a person picks in their client."""

from fastmcp.prompts import prompt


@prompt
async def summarize(text: str, sentences: int = 3) -> str:
    """Ask for a summary of a text.

    Args:
        text: What to summarize.
        sentences: How long the summary may be, in sentences.
    """
    return f"Summarize the following text in at most {sentences} sentences, without opinion.\n\n{text}"
