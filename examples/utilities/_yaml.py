"""YAML of one document, as version 1.2 reads it (its core schema), with the dates and merge keys of 1.1.

So `yes`, `on`, `0644` and `22:30` are texts. Only what says by itself what it is gets read; a tag, which could make it
something else, is refused. Aliases are followed as far as what they stand for, written out, stays small.
"""

import re
from datetime import time
from typing import Any

import yaml

from examples.utilities._document import DEEPEST, Malformed, Unfit, shown

_MOST_EXPANDED = 512 * 1024
"""Characters and parts, with each alias written out."""
_TAG = "tag:yaml.org,2002:"
_CORE = {
    f"{_TAG}bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    f"{_TAG}int": re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z"),
    f"{_TAG}float": re.compile(
        r"(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}
"""What unquoted words are (YAML 1.2.2, section 10.3.2)."""


class _Loader(yaml.CSafeLoader):
    """The one of the C library: PyYAML's own takes ten times as long."""

    # By first letter; those of 1.1 take seconds for a long number to base sixty.
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, _CORE.get(tag, pattern)) for tag, pattern in each if tag != f"{_TAG}value"]
        for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _Dumper(yaml.CSafeDumper):
    """Puts into quotes what either version would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


for _kind in ("int", "float"):
    _Dumper.add_implicit_resolver(f"{_TAG}{_kind}", _CORE[f"{_TAG}{_kind}"], list("-+.0123456789"))
_Dumper.add_representer(time, lambda dumper, value: dumper.represent_str(value.isoformat()))


def read(text: str) -> Any:
    """A value from its text.

    Raises:
        Malformed: it is no YAML, or a mapping has a key twice, of which one would be lost.
        Unfit: it has tags, or would grow or nest too much.
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
        raise Malformed("it holds characters that YAML doesn't have") from None
    except ValueError:  # a day that isn't, or a number of more digits than Python reads
        raise Malformed("it has a date or number that is none") from None


def write(value: Any) -> str:
    """The text of a value; times without a day become texts.

    Raises:
        Unfit: a number is too large.
    """
    try:
        written: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    except ValueError:
        raise Unfit("a number is too large") from None
    return written


def _look(text: str) -> None:
    """Refuse what grows or nests too much before anything is made of it: that would take all time and memory."""
    sizes: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []
    size = 0
    for event in yaml.parse(text, Loader=_Loader):
        before, size = size, size + _weight(event, sizes)
        if isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = size - before
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, None)  # within it, an alias of its name would be itself
            opened.append((event.anchor, before))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = size - before
        if len(opened) > DEEPEST:
            raise Unfit(f"it is nested deeper than {DEEPEST} lists and objects")
        if size > _MOST_EXPANDED:
            raise Unfit("with its aliases written out, it is too large")


def _weight(event: yaml.Event, sizes: dict[str | None, int]) -> int:
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in sizes:
            raise Unfit(f"the alias {shown(event.anchor)} stands for nothing, or for what it stands in")
        return sizes[event.anchor]
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise Unfit(f"tags such as {shown(tag)} aren't followed")
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
                raise Malformed(f"line {node.start_mark.line + 1}: a key is there twice")
            left += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            left += node.value
