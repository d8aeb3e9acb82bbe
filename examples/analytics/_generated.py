"""Generated customers and sales for trying out the tools; the data is the same on every machine."""

from collections.abc import Iterator
from datetime import date, timedelta

_TREES = ("Alder", "Ash", "Beech", "Birch", "Cedar", "Elm", "Hazel", "Larch", "Lime", "Maple", "Oak", "Willow")
_TRADES = ("Bakery", "Books", "Brewery", "Cycles", "Dairy", "Foods", "Glass", "Mill", "Tools", "Toys")
_REGIONS = ("north", "east", "south", "west")
_CUSTOMERS = len(_TREES) * len(_TRADES)
_SALES = 10_000
_FIRST_DAY = date(2024, 1, 1)
_DAYS = 731


def customers() -> Iterator[tuple[int, str, str]]:
    """Yield the rows of `customers (id, name, region)`."""
    for number in range(_CUSTOMERS):
        name = f"{_TREES[number // len(_TRADES)]} {_TRADES[number % len(_TRADES)]}"
        yield number + 1, name, _REGIONS[number * 7 % 4]


def sales() -> Iterator[tuple[int, int, date, int]]:
    """Yield the rows of `sales (id, customer_id, sold_on, cents)` for two years. A few customers have most sales."""
    for number in range(_SALES):
        spread = number * 7919 % _SALES
        customer = spread * spread * _CUSTOMERS // _SALES**2 + 1
        day = _FIRST_DAY + timedelta(number * _DAYS // _SALES)
        yield number + 1, customer, day, 500 + number * 104_729 % 20_000
