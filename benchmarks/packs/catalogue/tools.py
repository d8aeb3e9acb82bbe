"""Twenty tools whose schemas are as long as those of a usual server."""

from collections.abc import Awaitable, Callable
from typing import Literal

from fastmcp.tools import tool
from pydantic import BaseModel, Field


class Order(BaseModel):
    """An order of one customer."""

    number: int = Field(description="The order's number")
    customer: str = Field(description="Who ordered")
    total: float = Field(description="Sum of all items, with tax")


def _made(kind: str) -> Callable[..., Awaitable[list[Order]]]:
    async def find(customer: str, state: Literal["open", "sent", "paid"] = "open", limit: int = 10) -> list[Order]:
        """Find a customer's orders.

        Args:
            customer: The customer's name, or the beginning of it.
            state: In which state the orders are.
            limit: At most so many, the newest first.
        """
        return [Order(number=number, customer=f"{customer} {kind} {state}", total=0) for number in range(limit)]

    return find


for _number in range(20):
    _name = f"find_{_number:02}"
    globals()[_name] = tool(name=_name)(_made(_name))
