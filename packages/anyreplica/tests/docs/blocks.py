"""The code blocks of README.md and of the pages in docs/."""

import re
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SHOWN_BY = re.compile(r"<!-- shown by: (\S+) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    line: int
    language: str
    text: str
    shown_by: str
    """Test file that runs the commands of the block; empty if the tests of the documentation run them."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(language: str) -> list[Block]:
    """Return all blocks of a language, in the order of the pages."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            indent, name, code = match.groups()
            if name != language:
                continue
            before = text[: match.start()]
            shown = _SHOWN_BY.search(before)
            code = re.sub(f"^{indent}", "", code, flags=re.MULTILINE)
            found.append(Block(page, before.count("\n") + 1, name, code, shown[1] if shown else ""))
    return found
