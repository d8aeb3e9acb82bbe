"""Twenty tools with schemas of a usual length."""

from collections.abc import Awaitable, Callable
from typing import Literal

from fastmcp.tools import tool
from pydantic import BaseModel, Field


class Order(BaseModel):
    """An order of a customer."""

    number: int = Field(description="The order's number")
    customer: str = Field(description="Name of the customer")
    total: float = Field(description="Sum of all items, including tax")


def _made(kind: str) -> Callable[..., Awaitable[list[Order]]]:
    async def find(customer: str, state: Literal["open", "sent", "paid"] = "open", limit: int = 10) -> list[Order]:
        """Find the orders of a customer.

        Args:
            customer: The customer's name, or its first letters.
            state: State of the orders.
            limit: Maximum number of orders, the newest first.
        """
        return [Order(number=number, customer=f"{customer} {kind} {state}", total=0) for number in range(limit)]

    return find


for _number in range(20):
    _name = f"find_{_number:02}"
    globals()[_name] = tool(name=_name)(_made(_name))
