"""The commands in a text that install a distribution by its name from a package index."""

import re
from collections.abc import Iterable, Iterator

_PIP = r"(?:uv )?pip3?(?: --?[\w-]+(?:[ =]\S+)?)*? (?:install|wheel|download)"
_CONDA = r"(?:conda|mamba|micromamba) (?:install|create)"
_PYTHON = rf"{_PIP}|uv add|uv tool install|pipx (?:install|inject)|(?:poetry|pdm|rye|hatch) add|pipenv install|{_CONDA}"
_ONE = r"uvx|uv tool run|pipx run"
_WITH = r"(?:uv|fastmcp) (?:run|install|dev)"
"""Commands that install only what their option `--with` names."""
_NPM = r"npm (?:install|i|add|exec)|npx|(?:yarn|pnpm) (?:add|dlx)"
_COMMAND = re.compile(
    rf"(?<![\w./-])(?:(?P<all>{_PYTHON}|make add(?= PACKAGE=\w))|(?P<one>{_ONE})|(?P<npm>{_NPM})|(?P<with>{_WITH}))"
    r"(?=[ \t]+\S)"
)
_END = re.compile(r"[`;&|()<>,\n]|\s#|\\n|\.(?:\s|$)")
"""What ends a command in a script, in a sentence and in a message."""
_WORD = re.compile(r'"([^"]+)"|\'([^\']+)\'|([^\s"\']+)')
_TAKES_VALUE = {"-r", "-c", "-t", "-w", "-i", "-f", "--requirement", "--target", "--wheel-dir", "--only-binary"}
_TAKES_VALUE |= {
    "--prefix",
    "--python",
    "--find-links",
    "--from",
    "--spec",
    "-n",
    "--name",
    "--channel",
    "--group",
    "-G",
}
_NAMES_PACKAGE = {"--from", "--spec", "--with"}
_NAME = re.compile(r"(@?[A-Za-z0-9][\w./-]*?)(?:\[[\w,-]*\])?(?:@[\w.^~-]+|[=<>!~]=?.*)?")
_TEXT = r"\"[^\"\n]*\"|'[^'\n]*'"
_ITEM = rf"(?:f?(?:{_TEXT})|\*?[\w.]+(?:\([^()\n]*\))?)"
_ITEMS = re.compile(rf"(?:(?:{_TEXT})\s*[,:]\s*|\[\s*|\(\s*)(?:{_ITEM}\s*,\s*)*(?:{_TEXT})")
_JSON = re.compile(rf'"command"\s*:\s*({_TEXT})\s*,\s*"args"\s*:\s*\[')
"""The beginning of a command in the configuration of an MCP client."""
_REQUIREMENTS = re.compile(
    rf"(?m)^(?:# )?(?:[\w-]+dependencies|dependencies|requires)\s*=\s*\[((?:\s*(?:{_TEXT})\s*,?)+)"
)
"""A list of requirements in TOML."""
_SOURCE = re.compile(r"(?m)^([\w.-]+)\s*=\s*\{[^}\n]*\b(?:git|path|url|workspace)\s*=")
"""A requirement that comes from another place than the index."""
_OWN = re.compile(r"(?<![\w./-])(anyreplica|mcp-server)(?:\[[\w,]+\])?(?:[=~!<>]=)\s*\d")
"""A requirement of a distribution of this repository, with a version and without a URL."""


def installed(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each distribution that a text installs by its name: its registry (`pypi` or `npm`), its name, the line.

    Paths, URLs, variables and places for a name of the reader's own are left out.
    """
    yield from _by_command(text)
    for found in _ITEMS.finditer(_JSON.sub(r"[\1, ", text)):
        words = [word[1:-1] for word in re.findall(rf"({_TEXT})|{_ITEM}", found[0])]
        command = " ".join(word if word and " " not in word else "$" for word in words)  # `_by_command` finds the rest
        line = text.count("\n", 0, found.start()) + 1
        yield from ((registry, name, line) for registry, name, _ in _by_command(command))
    elsewhere = set(_SOURCE.findall(text))
    for found in _REQUIREMENTS.finditer(text):
        for requirement in re.findall(_TEXT, found[1]):
            name = _NAME.fullmatch(requirement[1:-1].partition(";")[0].replace(" ", ""))
            if name and name[1] not in elsewhere:
                yield "pypi", name[1], text.count("\n", 0, found.start()) + 1
    for found in _OWN.finditer(text):
        yield "pypi", found[1], text.count("\n", 0, found.start()) + 1


def _by_command(text: str) -> Iterator[tuple[str, str, int]]:
    joined = text.replace("\\\n", "  ")
    for found in _COMMAND.finditer(joined):
        line = joined.count("\n", 0, found.start()) + 1
        rest = joined[found.end() :]
        end = _END.search(rest)
        arguments = rest[: end.start()] if end else rest
        if found["with"]:
            names: Iterable[str] = _with(arguments)
        else:
            names = _names(arguments, only_first=not found["all"] and not _is_list(found))
        yield from (("npm" if found["npm"] else "pypi", name, line) for name in names)


def _with(arguments: str) -> Iterator[str]:
    """Yield the packages that options `--with` name."""
    words = _words(arguments)
    for word, after in zip(words, [*words[1:], ""], strict=True):
        option, _, value = word.partition("=")
        found = _NAME.fullmatch(value or after) if option == "--with" else None
        if found and not _is_path(found[1]):
            yield found[1]


def _is_list(found: re.Match[str]) -> bool:
    """Return whether all arguments of an npm command are packages, and not only the first one."""
    return bool(found["npm"]) and found["npm"].rpartition(" ")[2] in ("install", "i", "add")


def _names(arguments: str, *, only_first: bool) -> Iterator[str]:
    words = iter(_words(arguments.replace("PACKAGE=", "")))
    for word in words:
        option, _, value = word.partition("=")
        name = word
        if option in _TAKES_VALUE | _NAMES_PACKAGE:
            name = value or next(words, "")
            if option not in _NAMES_PACKAGE:
                continue
        elif word.startswith("-"):
            continue
        found = _NAME.fullmatch(name)
        if found and not _is_path(found[1]):
            yield found[1]
        if only_first and option != "--with":
            return


def _words(arguments: str) -> list[str]:
    """Split a command. It ends at a colon, and at the closing quote of the text around the command."""
    words = []
    for found in _WORD.finditer(arguments):
        word = found[1] or found[2] or found[3]
        ends = not word.startswith(":") and word.endswith(":")  # `:all:` is a value of pip
        words.append(word.rstrip(" :") if ends else word.rstrip())
        if ends or (found[3] and arguments[found.end() : found.end() + 1] in ("'", '"')):
            break
    return words


def _is_path(name: str) -> bool:
    is_folder = name.startswith(".") or ("/" in name and not name.startswith("@"))
    return is_folder or name.endswith((".whl", ".zip", ".lock"))
