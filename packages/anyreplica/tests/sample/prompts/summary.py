"""A prompt that a user selects in the client."""

from fastmcp.prompts import prompt


@prompt
async def summarize(text: str, sentences: int = 3) -> str:
    """Ask for a summary of a text.

    Args:
        text: The text to summarize.
        sentences: Maximum number of sentences of the summary.
    """
    return f"Summarize the following text in at most {sentences} sentences, without opinion.\n\n{text}"
