"""Conversions between formats keep the data, or the caller gets an error with the reason."""

import json
import math
import tomllib
from typing import Any

import pytest
import yaml
from fastmcp.exceptions import ToolError
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import StartServer, generated
from examples.utilities._document import MOST_CHARACTERS
from examples.utilities.tools import convert_format, validate_format
from tests.calls import call, text

ODD = ["", "<<", "=", "~", "null", "yes", "No", "on", "true", "1", "0644", "0o14", "0x1f", "1e3", "1.", ".5", "-.inf"]
ODD += ["22:30", "1_000", "2026-01-31", "2026-01-31T13:30:00Z", "13:30:00", "---", "- a", "a: b", "#", "&a", "*a", "!a"]
ODD += ["\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\r\n", "\t", " a ", '"', "'", "\\", "😀", "a.b", "é", "x" * 200]
ODD += [","]
TEXTS = st.text(max_size=8) | st.sampled_from(ODD)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


def nested(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for nested values of any depth."""
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
    )


def through(value: Any, *targets: Any) -> str:
    """Convert a value from JSON to one format after the other."""
    written, source = json.dumps(value), "json"
    for target in targets:
        written, source = convert_format(written, source, target), target  # type: ignore[arg-type]
    return written


@generated(400)
@given(value=nested(SCALARS | st.none() | st.integers()))
@example(value=ODD)
@example(value=dict.fromkeys(ODD, 1.5))
def test_json_through_yaml(value: Any) -> None:
    """JSON survives a conversion to YAML, and readers of YAML 1.1 read the same data."""
    written = through(value, "yaml")
    assert yaml.safe_load(written) == value
    assert json.loads(convert_format(written, "yaml", "json")) == value


@generated(400)
@given(value=st.dictionaries(TEXTS, nested(SCALARS), max_size=5))
@example(value=dict.fromkeys(ODD, 1.5))
@example(value={"a": {each: {} for each in ODD}, "b": [{"c": [{}, []]}], "d": {"e": {"f": {"g": ODD}}, "h": 1}})
def test_json_through_toml(value: dict[str, Any]) -> None:
    """An object survives a conversion to TOML, whatever its keys are."""
    written = through(value, "toml")
    assert tomllib.loads(written) == value
    assert json.loads(through(value, "toml", "yaml", "json")) == value


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, str]]:
    """Return rows of text with the same columns."""
    header = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
    rows = draw(st.lists(st.tuples(*(TEXTS for _ in header)), min_size=1, max_size=5))
    return [dict(zip(header, row, strict=True)) for row in rows]


@generated(400)
@given(rows=tables())
@example(rows=[{"": ""}])
@example(rows=[{each: each for each in ODD if each != "\ufeff"}])
def test_json_through_csv(rows: list[dict[str, str]]) -> None:
    """Rows of text survive a conversion to CSV, unless they begin with a byte order mark, which CSV drops."""
    first = next(iter(rows[0]))
    if first.startswith("\ufeff"):
        return
    assert json.loads(through(rows, "csv", "json")) == rows
    assert json.loads(through(rows, "csv", "yaml", "csv", "json")) == rows


@generated(200)
@given(day=st.dates() | st.datetimes() | st.times(), number=st.floats())
def test_dates_and_all_numbers_through_yaml(day: Any, number: float) -> None:
    """Dates and numbers survive TOML and YAML, but YAML has no times without a date, and JSON only texts."""
    toml = f"day = {day.isoformat()}\nnumber = {'nan' if math.isnan(number) else number!r}\n"
    found = tomllib.loads(convert_format(convert_format(toml, "toml", "yaml"), "yaml", "toml"))
    assert str(found["number"]) == str(number)
    assert found["day"] == (day if hasattr(day, "year") else day.isoformat())
    again = convert_format("[[rows]]\n" + toml.partition("\n")[0], "toml", "json")
    assert json.loads(again) == {"rows": [{"day": day.isoformat()}]}


def test_the_output_is_readable() -> None:
    """The output keeps the order, is indented, has no unnecessary escapes, and replaces aliases and merge keys."""
    document = '{"name": "Zoë", "on": "yes", "ports": [80, 443], "limits": {"cpu": 0.5, "memory": {"mib": 64}}}'
    assert convert_format(document, "json", "yaml") == (
        "name: Zoë\n'on': 'yes'\nports:\n- 80\n- 443\nlimits:\n  cpu: 0.5\n  memory:\n    mib: 64\n"
    )
    assert convert_format(document, "json", "toml") == (
        'name = "Zoë"\non = "yes"\nports = [80, 443]\n[limits]\ncpu = 0.5\n[limits.memory]\nmib = 64\n'
    )
    rows = '[{"a": 1, "b": null}, {"a": "x,y", "c": true}]'
    assert convert_format(rows, "json", "csv") == 'a,b,c\r\n1,,\r\n"x,y",,true\r\n'
    assert convert_format("\ufeffa\n\n1\n", "csv", "json") == '[\n  {\n    "a": "1"\n  }\n]\n'
    document = "base: &base {cpu: 1, on: yes}\nweb:\n  <<: *base\n  cpu: 2\nboth: [*base, *base]\n"
    base = {"cpu": 1, "on": "yes"}
    web, converted = {"cpu": 2, "on": "yes"}, json.loads(convert_format(document, "yaml", "json"))
    assert converted == {"base": base, "web": web, "both": [base, base]}
    assert "&" not in convert_format(document, "yaml", "yaml")


CHAIN = [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 20)]
MERGED = [f"a{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * 9)}]}}" for number in range(1, 20)]
DEEP = [f"a{number}: &a{number} [*a{number - 1}]" for number in range(1, 300)]
MOST = MOST_CHARACTERS


@pytest.mark.parametrize(
    ("formats", "document", "why"),
    [
        ("json toml", "[]", "a TOML document must be a table at the top level"),
        ("json toml", '{"a": [null]}', "TOML has no null"),
        ("json toml", f'{{"a": {2**63}}}', "an integer is too large for TOML"),
        ("json csv", '{"a": 1}', "a CSV document must be a list of objects"),
        ("json csv", "[1]", "a CSV document must be a list of objects"),
        ("json csv", "[{}]", "at least one column"),
        ("json csv", '[{"a": [1]}]', "a CSV field must be a single value, but 'a' is a list or an object"),
        ("json csv", json.dumps([{f"a{number}": 1} for number in range(2000)]), "too many fields"),
        ("yaml", "\n".join(["a0: &a0 x", *CHAIN]), "it is too large after all aliases are replaced"),
        ("yaml", "\n".join(["a0: &a0 {x: 1}", *MERGED]), "it is too large after all aliases are replaced"),
        ("yaml", "\n".join(["a0: &a0 [x]", *DEEP]), "nested deeper than 50"),
        ("yaml", f"a: &a {'x' * 10_000}\nb: [{'*a, ' * 1000}]", "it is too large after all aliases are replaced"),
        ("yaml", "&a [*a]", "the alias 'a' has no anchor, or refers to a part that contains it"),
        ("yaml", "- &a 1\n- &a [*a]", "the alias 'a' has no anchor, or refers to a part that contains it"),
        ("yaml", "*a", "the alias 'a' has no anchor"),
        ("yaml", "[" * MOST, "nested deeper than 50"),
        ("yaml", "- " * 60, "nested deeper than 50"),
        ("yaml", "!!python/object/apply:os.system [id]", "tags such as 'tag:yaml.org,2002:python/object/apply:os.sy"),
        ("yaml", "a: !Ref b", "tags such as '!Ref' are not allowed"),
        ("yaml", "1: a", "the key 1 is not text"),
        ("yaml", "{2026-01-31: a}", "the key datetime.date"),
        ("yaml", ".inf", "a number is infinite"),
        ("yaml", f"0x{'f' * 10_000}", "too large for JSON"),
        ("json", "[" * MOST, "nested too deeply"),
        ("json", f"{'[' * 60}{']' * 60}", "nested deeper than 50"),
        ("json", "9" * 10_000, "a number is too large"),
        ("json", "1e999", "a number is too large"),
        ("json", '["\\ud800"]', "half of a surrogate pair"),
        ("json", '{"\\ud800": 1}', "half of a surrogate pair"),
        ("toml", f"a = {'[' * 10_000}", "nested too deeply"),
        ("toml", f"a = {'9' * 10_000}", "a number is too large"),
        ("toml", f"{'a.' * (MOST // 2 - 2)}a=1", "a dotted key has more than 50 names"),
        ("toml", "[" + '"\\"" . ' * 1000 + "a]", "a dotted key has more than 50 names"),
        ("toml", f"a = {{{chr(39)}b{chr(39)}{'.c' * 1000} = 1}}", "a dotted key has more than 50 names"),
        ("csv", f"a\n{'a' * 50}\n" + "b\n" * 50_000, "longer than 1048576 characters"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_documents_that_are_refused(formats: str, document: str, why: str) -> None:
    """A document that is too large, too deep, or impossible in the other format (JSON) is refused soon."""
    source, target = (*formats.split(), "json")[:2]
    with pytest.raises(ToolError, match=r"^The text can't be converted: ") as error:
        convert_format(document, source, target)  # type: ignore[arg-type]
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("source", "document", "why"),
    [
        ("json", "", "line 1, column 1: "),
        ("json", "{'a': 1}", "line 1, column 2: "),
        ("json", "NaN", "NaN is not valid in JSON"),
        ("json", '{"a": 1, "a": 2}', "an object has the key 'a' twice"),
        ("json", f'{{"{"é" * 999}": 1, "{"é" * 999}": 2}}', "…"),
        ("yaml", "a: 1\nb: 2\na: 3", "line 1: a mapping has the same key twice"),
        ("yaml", "a: [", "line "),
        ("yaml", "--- a\n--- b", "expected a single document"),
        ("yaml", "? [a]\n: b", "unhashable key"),
        ("yaml", "a: \x01", "characters that YAML does not allow"),
        ("yaml", "2026-02-30", "an invalid date or number"),
        ("toml", "a = \nb = 1", "line 1"),
        ("toml", "a = 1\na = 2", "Cannot overwrite a value"),
        ("csv", "", "the header line is missing"),
        ("csv", "a,b\n1,2\n3\n", "line 3: 1 fields, but the header has 2"),
        ("csv", "a,a\n", "the header has the same name twice"),
        ("csv", 'a\n"b', "line 2: "),
        ("csv", 'a\n"b"c', "line 2: "),
    ],
)
def test_an_invalid_document_gets_an_error(source: Any, document: str, why: str) -> None:
    """An invalid document gets an error with the place; `validate_format` gives the same reason."""
    with pytest.raises(ToolError, match=f"^The text is not valid {source.upper()}: ") as error:
        convert_format(document, source, "json")
    assert why in str(error.value)
    assert len(str(error.value)) < 300
    checked = validate_format(document, source)
    assert not checked.valid
    assert f"The text is not valid {source.upper()}: {checked.reason}" == str(error.value)


PIECES = [*ODD, "[", "]", "{", "}", ":", ": ", "\n", "  ", "- ", "=", " = ", "<<: ", "&a ", "*a", "!!", "? ", "|"]
PIECES += [">", "%", "@"]
PIECES += ["a", "1", "-", "inf", "nan", "e", "_", "'''", '"""', "[[", "]]", "\\u", "\\ud800", "0b", "T", "Z"]
PIECES += ["+01:00", "\ud800"]
FORMATS = st.sampled_from(["json", "yaml", "toml", "csv"])


@generated(1500)
@given(document=st.lists(st.sampled_from(PIECES), max_size=12).map("".join), source=FORMATS, target=FORMATS)
def test_any_text_gets_a_result_or_an_error(document: str, source: Any, target: Any) -> None:
    """Any text gets a valid result or an error."""
    try:
        written = convert_format(document, source, target)
    except ToolError:  # The text gets an error.
        pass
    else:
        assert convert_format(written, target, target) == written
        assert validate_format(document, source).valid


def test_a_replica_serves_the_pack(start_server: StartServer) -> None:
    """A replica returns conversions and errors, and its log contains no text that callers convert."""
    url = (replica := start_server(MCP_COMPONENTS="server,examples.utilities", LOG_LEVEL="DEBUG")).url
    document = {"text": "private: [1, 2]", "source": "yaml", "target": "toml"}
    assert call(url, "convert_format", document)["structuredContent"] == {"result": "private = [1, 2]\n"}
    checked = {"text": "192.0.2.1", "kind": "ipv4"}
    assert call(url, "validate_format", checked)["structuredContent"] == {"valid": True, "reason": None}
    for wrong, why in (
        ({"source": "xml"}, "source"),
        ({"text": "x" * (MOST + 1)}, "text"),
        ({"text": "private: !Ref private"}, "tags such as '!Ref' are not allowed"),
        ({"text": "[" * MOST}, "nested deeper than 50"),
    ):
        reply = call(url, "convert_format", {**document, **wrong})
        assert reply["isError"]
        assert why in text(reply)
    replica.stop()
    assert "private" not in replica.output
    assert "Traceback" not in replica.output
