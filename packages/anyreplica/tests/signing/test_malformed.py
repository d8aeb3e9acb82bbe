"""Requests with any bytes are accepted or refused with `BadSignature`; no other exception occurs."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyreplica.auth.refusal import BadSignature
from tests.signing.calls import NONCE, NOW, PARAMETERS, Call, refusal, signatures

pytestmark = pytest.mark.slow

EXAMPLES = 1000
"""Number of requests that each generating test makes."""

SIGNED = Call().signed()
NAMES = ["signature-input", "signature", "content-digest", "host"]

CHARACTERS = [*'()";=:,?@%*-.0aZ \t\\', "\x00", "\x7f", "é", "9" * 16]
COVERED = [
    '"@method"',
    '"@path"',
    '"content-digest"',
    '"@query-param"',
    '"host"',
    ";key",
    ";req",
    ";bs",
    ";sf",
    ";name",
]
WORDS = [
    "sig",
    "sig=",
    "()",
    ";created",
    f"={NOW}",
    ';keyid="ci"',
    f';nonce="{NONCE}"',
    '="host"',
    "sha-256=",
    ":AAAA:",
]
VALUES = ["1.5", "?1", "@99999999999", '%"f%c3%bc"']
PIECES = st.sampled_from([*CHARACTERS, *COVERED, *WORDS, *VALUES])
SYNTAX = st.lists(PIECES, max_size=25).map("".join)
TEXT = st.binary(max_size=60).map(lambda raw: raw.decode("latin-1"))


def spoilt(value: str) -> st.SearchStrategy[str]:
    """Return a strategy for a value with a part replaced."""
    places = st.integers(0, len(value))
    return st.builds(
        lambda start, length, part: value[:start] + part + value[start + length :],
        places,
        st.integers(0, 10),
        SYNTAX | TEXT,
    )


def outcome(call: Call) -> None:
    """Check a request.

    The test fails for any exception except `BadSignature`. It also fails if the error message is empty, too long, not
    printable ASCII or without a final period or question mark.
    """
    with suppress(BadSignature):
        try:
            assert asyncio.run(signatures().check(call.scope, call.body)) == "ci"
        except BadSignature as refused:
            said = str(refused)
            if not (said.isascii() and said.isprintable() and said.endswith((".", "?")) and len(said) < 5000):
                pytest.fail(f"improper error message: {said!r}")
            raise


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), SYNTAX | TEXT), max_size=6), st.binary(max_size=20))
def test_headers_of_any_bytes(headers: list[tuple[str, str]], body: bytes) -> None:
    """A request with any, missing or repeated headers is accepted or refused."""
    outcome(Call(headers=tuple(headers), body=body))
    outcome(replace(SIGNED, headers=SIGNED.headers + tuple(headers)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), spoilt(dict(SIGNED.headers)[name]))))
@example(("signature-input", f"sig=({'(' * 4000}"))
@example(("signature-input", "sig=" + '"a" ' * 1000))
@example(("signature", "sig=:" + "A" * 500))
def test_a_valid_header_with_a_replaced_part(header: tuple[str, str]) -> None:
    """A request with a replaced part in a valid header is accepted or refused."""
    outcome(SIGNED.but(*header))


COMPONENTS = st.tuples(SYNTAX | st.builds('"{}"{}'.format, SYNTAX, SYNTAX), SYNTAX | TEXT)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(COMPONENTS, max_size=5), SYNTAX.map(lambda more: PARAMETERS + more) | SYNTAX)
@example([('"@path";name=a', "/mcp")], PARAMETERS)
@example([('"@query-param";name="%"', "")], PARAMETERS)
@example([(f'"host";key="{number}"', "") for number in range(100)], PARAMETERS)
def test_a_valid_signature_of_invalid_components(components: list[tuple[str, str]], parameters: str) -> None:
    """A request with a valid signature of invalid components is accepted or refused.

    The owner of a key can sign any components.
    """
    outcome(Call().signed_over(components, parameters))


@settings(max_examples=EXAMPLES, deadline=None)
@given(SYNTAX | TEXT, SYNTAX | TEXT, SYNTAX | TEXT)
def test_first_lines_of_any_bytes(method: str, path: str, query: str) -> None:
    """A request with any bytes in method, path and query is accepted or refused.

    Some servers let these bytes through.
    """
    components = [('"@method"', method), ('"@path"', path or "/"), ('"@query"', f"?{query}")]
    for line in ({"method": method}, {"path": path}, {"path": f"/{path}"}, {"query": query}):
        outcome(replace(SIGNED, **line))  # type: ignore[arg-type]
    whole = Call(method=method, path=f"/{path}", query=query, body=b"")
    outcome(whole.signed_over([(name, value) for name, value in components if value.isprintable()]))


def test_no_error_shows_the_value_of_a_header() -> None:
    """An error message never contains the value of a header, which may be a secret."""
    call = SIGNED.plus(authorization="Bearer hunter2", x_digest="hunter2")
    for name in ("signature-input", "signature", "content-digest"):
        assert "hunter2" not in refusal(call.but(name, "hunter2"))
