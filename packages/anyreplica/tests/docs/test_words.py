"""Words that have a meaning of their own here: a page explains each of them, or links it, where it first uses it.

The words are those of the glossary in docs/index.md that a reader of other projects does not know, or knows with
another meaning. Pages that a program writes, and the changelog, may use them without this.
"""

import re
from pathlib import Path

import pytest

from conftest import ROOT

GLOSSARY = ROOT / "docs" / "index.md"
WRITTEN = ("changelog.md", "command-line.md", "differences.md", "python-api.md", "settings.md")
"""The changelog, and pages of which a program writes the most part."""
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page != GLOSSARY and page.name not in WRITTEN
]
WORDS = {
    "overlay": r"overlays?",
    "edge proxy": r"edge(?: prox(?:y|ies))?",
    "routing mesh": r"(?:routing )?mesh",
    "drain": r"drain(?:s|ed|ing)?",
    "fast path": r"fast path",
}
"""Each word with the forms that it has in a text."""
REPLACED = r"chassis"
"""A word that the project no longer uses."""

_NO_TEXT = re.compile(r"^( *)```.*?^\1```$|<!--.*?-->|^#.*?$|`[^`\n]*`|(?<=\])\([^)\n]*\)", re.MULTILINE | re.DOTALL)
"""Code, comments, headings and the targets of links."""


def first(page: Path, forms: str) -> re.Match[str] | None:
    """Return the first use of a word in the text of a page, with the characters around it."""
    text = _NO_TEXT.sub("", page.read_text())
    return re.search(rf"(?<![\w/-])(?:{forms})(?![\w-])", text, re.IGNORECASE)


def is_explained(use: re.Match[str]) -> bool:
    """Return whether a use is in italic or bold type, which stands beside an explanation, or in the text of a link."""
    before, after = use.string[: use.start()], use.string[use.end() :]
    in_a_link = re.search(r"\[[^\]\n]*\Z", before) and re.match(r"[^\[\n]*?\]", after)
    return bool(in_a_link or (before.endswith("*") and after.startswith("*")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_explains_a_word_or_links_it(page: Path) -> None:
    """Somebody who opens only this page learns what the word means, or finds it with one click."""
    for word, forms in WORDS.items():
        use = first(page, forms)
        assert use is None or is_explained(use), f"{word}: {use.string[max(0, use.start() - 60) : use.end() + 40]!r}"
    assert not first(page, REPLACED)


def test_the_glossary_has_each_word() -> None:
    """A row of the glossary explains each of these words."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]{30,} \|$", GLOSSARY.read_text(), re.MULTILINE)
    assert set(WORDS) <= {word for row in rows for word in row.split(", ")}
