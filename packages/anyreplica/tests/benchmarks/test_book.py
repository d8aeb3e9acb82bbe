"""The page docs/explanation/benchmarks.md."""

import importlib.util
import re

from benchmarks import book


def test_this_page_is_up_to_date() -> None:
    """The page has the committed figures."""
    assert book.main(["--check"]) == 0


def test_each_study_has_a_section() -> None:
    """A section has one command that exists, tables and one machine line of its study, or the record."""
    _, *sections = book.TEXT.read_text().split("\n### ")
    counted = [section for section in sections if "{{ record instructions }}" in section]
    assert len(counted) == 1
    assert "make bench-instructions\n" in counted[0]
    sections.remove(counted[0])
    for name, section in zip(book.STUDIES, sections, strict=True):
        assert re.findall(r"(?:python -m benchmarks\.|make bench-)(\w+)", section) == [name]
        assert importlib.util.find_spec(f"benchmarks.{name}")
        assert set(re.findall(r"\{\{ table (\w+) ", section)) == {name}
        assert re.findall(r"\{\{ machine (\w+) ", section) == [name]
