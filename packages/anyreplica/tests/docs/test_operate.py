"""The questions of an operator, and the sections of docs/guides/operate.md that answer them."""

import re

import pytest

from conftest import ROOT

PAGE = ROOT / "docs" / "guides" / "operate.md"
ANSWERS = {
    "get the old one back": "make rollback",
    "exit code 137": "| 137 |",
    "logs": "max-size",
    "certificate": "EDGE_PEM_SECRET",
    "Grafana": "reset-admin-password",
    "Redis": "redis-cli --rdb",
    "node": "docker node update --availability drain",
    "Old images": "docker image prune",
    "key leaked": "API_KEYS_SECRET",
    "SQLite": "a database that all replicas reach",
}
"""A part of each question, and a part of its answer."""


def test_the_page_begins_with_ten_questions() -> None:
    """Each row of the table is one of the questions, with a link to one section of the page."""
    rows = re.findall(r"^\| (.+[?]) \| \[(.+)\]\(#(.+)\) \|$", PAGE.read_text(), re.MULTILINE)
    assert len({anchor for *_, anchor in rows}) == len(rows) == len(ANSWERS) == 10
    for question, title, anchor in rows:
        assert anchor == title.lower().replace(" ", "-")
        assert any(part in question for part in ANSWERS), question


@pytest.mark.parametrize("question", ANSWERS)
def test_a_section_answers_the_question(question: str) -> None:
    """The section to which the question leads exists, and has the command or the word that an operator needs."""
    text = PAGE.read_text()
    (title,) = re.findall(rf"^\| [^|]*{re.escape(question)}[^|]*[?] \| \[(.+)\]", text, re.MULTILINE)
    sections = dict(re.findall(r"^## (.+)\n\n((?:(?!## ).*\n?)+)", text, re.MULTILINE))
    assert ANSWERS[question] in sections[title]
