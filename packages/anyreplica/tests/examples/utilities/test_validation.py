"""Tests of `validate_format`: exactly the texts that are valid by their standard are accepted."""

import ipaddress
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import given
from hypothesis import strategies as st

from conftest import generated
from examples.utilities.tools import validate_format

DATE_TIMES = ["1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00", "1990-12-31T23:59:60Z"]
DATE_TIMES += ["1990-12-31T15:59:60-08:00", "1937-01-01t12:00:27.87+00:20", "2024-02-29T00:00:00.123456789123z"]
DATE_TIMES += ["2026-01-01T00:00:00-00:00"]
URLS = ["http://a", "https://me:pass@example.com:8443/a/b;c=d?e=f&g#h?/", "ftp://[2001:db8::7]/x", "s3+x.y-z://bucket"]
URLS += ["http://a:/%20%C3%A9", "http://[::ffff:192.0.2.1]:80"]
VALID = {
    "json": ["null", ' {"a": [1, 2.5e3]}\n', "\ufeff{}", "[" * 60 + "]" * 60],
    "yaml": ["", "a: [1, 2]", "1: a", "on: yes", "%YAML 1.2\n---\na", "# only this"],
    "toml": ["", "[a]\nb = 2026-01-31", "a.b = 1"],
    "csv": ["a", "a,b\r\n1,2\r\n", 'a\n"b\nc"\n'],
    "uuid": ["00000000-0000-0000-0000-000000000000", "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"],
    "date-time": DATE_TIMES,
    "url": URLS,
    "ipv4": ["0.0.0.0", "255.255.255.255"],
    "ipv6": ["::", "::1", "2001:DB8::8:800:200C:417A", "::ffff:129.144.52.38"],
}

NO_UUIDS = ["", "f81d4fae7dec11d0a76500a0c91e6bf6", "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"]
NO_UUIDS += ["f81d4fae-7dec-11d0-a765-00a0c91e6bfg", " f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]
NO_UUIDS += ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n", "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]
NO_DATE_TIMES = ["", "2026-01-31", "2026-01-31 13:30:00Z", "2026-01-31T13:30:00", "2026-01-31T13:30Z"]
NO_DATE_TIMES += ["2026-02-30T13:30:00Z", "2026-01-31T24:00:00Z", "2026-01-31T13:60:00Z", "2026-01-31T13:30:61Z"]
NO_DATE_TIMES += ["2026-01-31T13:30:60Z", "1990-12-31T23:59:60-08:00", "2026-01-31T13:30:00.Z"]
NO_DATE_TIMES += ["2026-01-31T13:30:00+24:00", "2026-01-31T13:30:00+01:60", "2026-01-31T13:30:00+0100"]
NO_DATE_TIMES += ["0000-01-01T00:00:00Z", "٢٠٢٦-01-31T13:30:00Z", "2026-01-31T13:30:00Z\n"]
NO_URLS = ["", "example.com", "//example.com", "http:", "http://", "http:///path", "http://:80", "http://a b"]
NO_URLS += ["http://a/b c", "http://a\\b", "http://é", "http://a/%2", "http://a/%zz", "http://a:65536", "http://a:8o"]
NO_URLS += ["http://a:" + "9" * 9999, "http://[::1", "http://[1.2.3.4]", "http://[fe80::1%25eth0]", "http://[v1.a]"]
NO_URLS += ["http://a@b@c", "http://a/<b>", "http://a#b#c", "1http://a", "http://a\n", "mailto:me@example.com"]
NO_IPV4 = ["", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4", "1.2.3.4/8", " 1.2.3.4", "١.2.3.4", "0x7f.1", "1.2.3.4\n"]
INVALID = {
    "uuid": NO_UUIDS,
    "date-time": NO_DATE_TIMES,
    "url": NO_URLS,
    "ipv4": NO_IPV4,
    "ipv6": ["", ":::", "1::2::3", "fe80::1%eth0", "[::1]", "::1/64", "12345::", "1.2.3.4", "::1\n", "1:2:3:4:5:6:7"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in VALID.items() for text in texts])
def test_a_valid_text_is_accepted(kind: Any, text: str) -> None:
    """A valid text is accepted without a reason."""
    assert validate_format(text, kind).model_dump() == {"valid": True, "reason": None}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in INVALID.items() for text in texts])
def test_an_invalid_text_is_refused(kind: Any, text: str) -> None:
    """An invalid text is refused with a short reason."""
    checked = validate_format(text, kind)
    assert not checked.valid
    assert checked.reason
    assert len(checked.reason) <= 200


OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(number=st.uuids(), moment=st.datetimes(timezones=OFFSETS), address=st.ip_addresses())
def test_values_that_python_writes_are_valid(number: uuid.UUID, moment: datetime, address: Any) -> None:
    """A value that Python writes is valid for its own kind and for no other."""
    kind: Any = "ipv4" if isinstance(address, ipaddress.IPv4Address) else "ipv6"
    host = f"[{address}]" if kind == "ipv6" else address
    words = {"uuid": str(number), "date-time": moment.isoformat(), kind: str(address), "url": f"http://{host}:80/a"}
    kinds: list[Any] = ["uuid", "date-time", "ipv4", "ipv6", "url"]
    for kind, word in words.items():
        assert [each for each in kinds if validate_format(word, each).valid] == [kind]


PIECES = ["2026-01-31T13:30:00", "Z", "+01:00", ":", "::", ".", "1", "ff", "-", "http://", "a", "@", "[", "]", "%"]
PIECES += ["/", "\0", "é"]


@generated(500)
@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=10).map("".join))
def test_any_text_is_valid_or_invalid(text: str) -> None:
    """Each text is valid without a reason or invalid with one, and a valid URL is printable ASCII."""
    for kind in ("uuid", "date-time", "ipv4", "ipv6", "url"):
        checked = validate_format(text, kind)
        assert checked.valid == (checked.reason is None)
    if validate_format(text, "url").valid:
        assert text.isascii()
        assert text.isprintable()


def test_long_texts_take_no_time() -> None:
    """A long text is validated quickly, and one that is too deep to check causes an error, not a wrong answer."""
    for piece in ("a", "%41", "a@", "a:", "[", "/", "?", "#", ".", "0", "1.", ":", "-", "a.", "::", "f" * 8 + "-"):
        for front in ("", "http://", "http://[", "2026-01-31T13:30:00."):
            for kind in ("uuid", "date-time", "ipv4", "ipv6", "url"):
                validate_format((front + piece * 131_072)[:131_072], kind)
    with pytest.raises(ToolError, match="The text can't be checked: it is nested too deeply"):
        validate_format("[" * 100_000, "json")
