"""Malformed requests are accepted or refused with `BadSignature`; no other exception occurs.

`fuzz/test_targets.py` also replaces parts of valid headers at random.
"""

from dataclasses import replace

import pytest

from tests.damage.structured import VECTORS
from tests.signing.calls import PARAMETERS, Call, outcome, refusal

SIGNED = Call().signed()
NAMES = ["signature-input", "signature", "content-digest", "host"]


@pytest.mark.parametrize("name", NAMES)
def test_headers_of_any_text(name: str) -> None:
    """A request with a malformed, missing or repeated header is accepted or refused."""
    outcome(SIGNED.replace(name, None))
    for text in VECTORS:
        outcome(SIGNED.replace(name, text))
        outcome(SIGNED.plus(**{name: text}))
        outcome(Call(headers=((name, text),)))


def test_a_valid_signature_of_invalid_components() -> None:
    """The owner of a key can sign any components and parameters; such a request is accepted or refused."""
    for text in VECTORS:
        for component in (text, f'"{text}"', f'"@path";{text}', f'"host";{text}'):
            outcome(Call().signed_over([(component, "/mcp")]))
            outcome(Call().signed_over([('"@method"', "POST"), (component, text)]))
        outcome(Call().signed_over([], f"{PARAMETERS};{text}"))
        outcome(Call().signed_over([], text))
    outcome(Call().signed_over([('"@query-param";name="%"', "")]))
    outcome(Call().signed_over([(f'"host";key="{number}"', "") for number in range(100)]))


def test_first_lines_of_any_text() -> None:
    """A request with any text in method, path and query is accepted or refused; some servers let these through."""
    for text in (*VECTORS, "?", "#", "//", "http://[::1", "%zz", "a b", "\r\nX: y", "é\xff"):
        for line in ({"method": text}, {"path": text}, {"path": f"/{text}"}, {"query": text}):
            outcome(replace(SIGNED, **line))  # type: ignore[arg-type]
        components = [('"@method"', text), ('"@path"', f"/{text}"), ('"@query"', f"?{text}")]
        if text.isprintable():
            outcome(Call(method=text, path=f"/{text}", query=text, body=b"").signed_over(components))


def test_no_error_shows_the_value_of_a_header() -> None:
    """An error message never contains the value of a header, which may be a secret."""
    call = SIGNED.plus(authorization="Bearer hunter2", x_digest="hunter2")
    for name in ("signature-input", "signature", "content-digest"):
        assert "hunter2" not in refusal(call.replace(name, "hunter2"))
