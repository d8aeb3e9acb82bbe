"""The file docs/llms.txt: all pages with one sentence each, for language models (the form of llmstxt.org)."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs"

_SENTENCE = re.compile(r"(.+?[.!?])(?=\s|$)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def page() -> str:
    """Return the file."""
    project = tomllib.loads((DOCS / "zensical.toml").read_text())["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}", ""]
    for entry in project["nav"]:
        ((title, pages),) = entry.items()
        if isinstance(pages, str):
            continue
        lines += [f"## {title}", "", *(_line(name, file) for name, file in _pages(title, pages)), ""]
    return "\n".join(lines)


def _pages(title: str, entry: Any) -> Iterator[tuple[str, str]]:
    """Yield the title and the file of each page of a part of the navigation."""
    if isinstance(entry, str):
        yield title, entry
    elif isinstance(entry, list):
        for each in entry:
            yield from _pages(title, each)
    else:
        for name, each in entry.items():
            yield from _pages(name, each)


def _line(title: str, file: str) -> str:
    """Return the line of a page: a link, and the first sentence of the page."""
    paragraphs = (DOCS / file).read_text().split("\n\n")
    text = next(each for each in paragraphs[1:] if each[0].isalpha() or each[0] in "[`")
    sentence = _SENTENCE.match(_LINK.sub(r"\1", text))
    return f"- [{title}]({file}): {sentence[1] if sentence else text}".replace("\n", " ")
