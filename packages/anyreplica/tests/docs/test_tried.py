"""The page "What was tried" lists the servers and frameworks that the tests in `world` try."""

from tests.world.page import PAGE, page


def test_the_tables_of_the_page_fit_the_tests() -> None:
    """`cd packages/anyreplica && python -m tests.world.page` writes them."""
    assert PAGE.read_text() == page(PAGE.read_text())
