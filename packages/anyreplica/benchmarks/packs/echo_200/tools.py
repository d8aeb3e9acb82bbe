"""The echo tool among 199 others."""

from collections.abc import Awaitable, Callable

from fastmcp.tools import tool


@tool
async def echo(message: str) -> str:
    """Return the message.

    Args:
        message: Any text.
    """
    return message


def _made(number: int) -> Callable[..., Awaitable[str]]:
    async def numbered(text: str, times: int = 1, upper: bool = False) -> str:
        """Repeat a text.

        Args:
            text: Any text.
            times: Number of repetitions.
            upper: True for capital letters.
        """
        return f"{number}: {text.upper() if upper else text}" * times

    return numbered


for _number in range(199):
    _name = f"numbered_{_number:03}"
    globals()[_name] = tool(name=_name)(_made(_number))
