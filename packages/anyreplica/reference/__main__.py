"""Write the generated pages of docs and the generated files of the Helm chart: `python -m reference`.

With `--check`, it only checks that they are up to date.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from reference import chart, command_line, llms, python_api, settings_table
from upstream import differences

DOCS = Path(__file__).parents[3] / "docs"
FOLDER = DOCS / "reference"
PAGES: dict[Path, Callable[[], str]] = {
    FOLDER / "settings.md": settings_table.page,
    FOLDER / "command-line.md": command_line.page,
    FOLDER / "python-api.md": python_api.page,
    DOCS / "explanation" / "differences.md": differences.page,
    DOCS / "llms.txt": llms.page,
    **chart.FILES,
}


def main() -> int:
    """Write or check the pages. Return 1 if `--check` finds a page that differs from the code."""
    parser = argparse.ArgumentParser(prog="python -m reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    check = parser.parse_args().check
    outdated = [file.name for file, page in PAGES.items() if not _is_current(file, page(), write=not check)]
    if check and outdated:
        print(f"Out of date: {', '.join(outdated)}. Run `make reference` and commit the result.", file=sys.stderr)
        return 1
    return 0


def _is_current(file: Path, content: str, *, write: bool) -> bool:
    current = file.exists() and file.read_text() == content
    if write and not current:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return current


if __name__ == "__main__":
    sys.exit(main())
