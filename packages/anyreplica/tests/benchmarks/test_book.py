"""The page docs/explanation/benchmarks.md."""

import importlib.util
import re

from benchmarks import book


def test_this_page_is_up_to_date() -> None:
    """The page has the committed figures."""
    assert book.main(["--check"]) == 0


def test_each_study_has_a_section() -> None:
    """Each section has one command that exists, at least one table, and one machine line, all of the same study.

    The section of the instructions has the record instead, which has the machine of each line.
    """
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
