"""The format YAML, one document, with the core schema of version 1.2 and the dates and merge keys of version 1.1.

So `yes`, `on`, `0644` and `22:30` are texts. Tags are refused, because a tag can create arbitrary types. Aliases are
replaced by their values, as long as the result stays small.
"""

import re
from datetime import time
from typing import Any

import yaml

from examples.utilities._document import DEEPEST, Malformed, Unfit, shown

_MOST_EXPANDED = 512 * 1024
"""Maximum number of characters and parts after the replacement of all aliases."""
_TAG = "tag:yaml.org,2002:"
_CORE = {
    f"{_TAG}bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    f"{_TAG}int": re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z"),
    f"{_TAG}float": re.compile(
        r"(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}
"""The patterns that give unquoted words their types (YAML 1.2.2, section 10.3.2)."""


class _Loader(yaml.CSafeLoader):
    """A loader based on the C library; PyYAML's own loader takes ten times as long."""

    # Patterns by first letter. `_CORE` replaces those of YAML 1.1, which take seconds for a long number in base 60.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, _CORE.get(tag, pattern)) for tag, pattern in each if tag != f"{_TAG}value"]
        for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _Dumper(yaml.CSafeDumper):
    """A dumper that quotes a text if version 1.1 or 1.2 would read it as another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


for _kind in ("int", "float"):
    _Dumper.add_implicit_resolver(f"{_TAG}{_kind}", _CORE[f"{_TAG}{_kind}"], list("-+.0123456789"))
_Dumper.add_representer(time, lambda dumper, value: dumper.represent_str(value.isoformat()))


def read(text: str) -> Any:
    """Parse a text and return its value.

    Raises:
        Malformed: The text is not YAML, or a mapping has a key twice, so one value would be lost.
        Unfit: The text has tags, is nested too deeply, or becomes too large with its aliases replaced.
    """
    try:
        _look(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            _look_for_twins(node)
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        why = ", ".join(each for each in (error.context, error.problem) if each)
        raise Malformed(f"{where}{why[:200]}") from None
    except yaml.YAMLError:
        raise Malformed("it contains characters that YAML does not allow") from None
    except ValueError:  # A date that does not exist, or a number with more digits than Python's limit.
        raise Malformed("it contains an invalid date or number") from None


def write(value: Any) -> str:
    """Return the text of a value; times without a date become texts.

    Raises:
        Unfit: A number is too large.
    """
    try:
        written: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    except ValueError:
        raise Unfit("a number is too large") from None
    return written


def _look(text: str) -> None:
    """Refuse a text that is too deep or grows too much, before the parser builds values and needs all memory."""
    sizes: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []
    size = 0
    for event in yaml.parse(text, Loader=_Loader):
        before, size = size, size + _weight(event, sizes)
        if isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = size - before
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, None)  # Inside the collection, an alias of this name would refer to itself.
            opened.append((event.anchor, before))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = size - before
        if len(opened) > DEEPEST:
            raise Unfit(f"it is nested deeper than {DEEPEST} lists and objects")
        if size > _MOST_EXPANDED:
            raise Unfit("it is too large after all aliases are replaced by their values")


def _weight(event: yaml.Event, sizes: dict[str | None, int]) -> int:
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in sizes:
            raise Unfit(f"the alias {shown(event.anchor)} has no anchor, or refers to a part that contains it")
        return sizes[event.anchor]
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise Unfit(f"tags such as {shown(tag)} are not allowed")
    return 1 + len(getattr(event, "value", ""))


def _look_for_twins(root: yaml.Node | None) -> None:
    seen: set[int] = set()
    left = [root]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(keys):
                raise Malformed(f"line {node.start_mark.line + 1}: a mapping has the same key twice")
            left += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            left += node.value
