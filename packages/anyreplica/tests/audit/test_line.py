"""The fields of an entry, and the protection against text from callers."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.audit.call import Noted, canonical
from anyreplica.features.audit.line import Digests, outcome
from anyreplica.features.audit.verify import read
from tests.audit.calls import KEY, NOON, a_call, line_of, said

_PIPE = 4096
_TEXTS = ("request_id", "caller", "method", "name")
_nasty = st.text(
    st.characters() | st.sampled_from('\n\r\x00\x1b\x7f\x85\u2028\u2029\u202e\ud800\U0001f600"\\{}'), max_size=300
)


def test_an_entry_names_caller_and_call() -> None:
    """An entry names the caller and the call, and has a digest of the arguments, if any, but none of their values."""
    line = line_of(a_call({"message": "hunter2"}, time=NOON))
    fields = said(line)
    assert list(fields) == [
        *("audit", "time", "request_id", "caller", "method", "name", "arguments_sha256", "outcome", "status", "ms"),
        *("replica", "run", "seq", "prev", "hash"),
    ]
    assert fields["time"] == "2026-09-21T14:13:20.250Z"
    assert [fields[name] for name in _TEXTS] == ["1f2e3d4c", "key:ci", "tools/call", "echo"]
    assert fields["arguments_sha256"] == hashlib.sha256(b'{"message":"hunter2"}').hexdigest()
    assert (fields["outcome"], fields["status"], fields["ms"]) == ("ok", 200, 1.5)
    assert (fields["replica"], fields["run"], fields["seq"], fields["prev"]) == ("r1", "run1", 0, "")
    assert b"hunter2" not in line
    assert "arguments_sha256" not in said(line_of(a_call(method="tools/list", name="")))


@pytest.mark.parametrize(
    ("status", "failed", "word"),
    [
        (200, False, "ok"),
        (202, False, "ok"),
        (200, True, "failed"),
        (500, True, "failed"),
        (500, False, "failed"),
        (400, True, "refused"),
        (401, False, "refused"),
        (429, False, "refused"),
        (503, False, "refused"),
        (503, True, "cancelled"),
        (499, True, "gone"),
        (499, False, "gone"),
    ],
)
def test_the_outcome_is_a_word(status: int, failed: bool, word: str) -> None:
    """The outcome is one word of a short list."""
    assert outcome(status, failed) == word
    assert said(line_of(a_call(status=status, failed=failed)))["outcome"] == word


@given(_nasty, _nasty, _nasty, _nasty, st.dictionaries(_nasty, _nasty, max_size=3))
def test_text_from_a_caller_stays_within_its_field(
    request_id: str, caller: str, method: str, name: str, arguments: dict[str, str]
) -> None:
    """Text from a caller changes no other field, and the entry stays one printable line that fits into a pipe."""
    call = Noted(NOON, request_id, caller, method, name, canonical(arguments), 200, False, 0.1)
    line = line_of(call, "*.*")
    text = line.decode()
    assert text[-1] == "\n"
    assert text[:-1].replace("\x7f", "").isprintable()
    assert len(text.splitlines()) == 1
    assert len(line) < _PIPE
    plain = said(line_of(a_call({}, time=NOON)))
    assert set(said(line)) - {"arguments", "arguments_left_out"} == set(plain)
    entry = read(line, Digests(None).line)
    assert entry is not None
    assert entry.true
    for field, given_text in zip(_TEXTS, (request_id, caller, method, name), strict=True):
        shown = said(line)[field]
        assert len(shown) <= 200
        if given_text.isprintable() and len(given_text) <= 100:
            assert shown == given_text


def test_the_longest_line_fits_a_pipe() -> None:
    """The longest possible entry fits into a pipe in one piece."""
    wide = "\U0001f600" * 300
    arguments = {f"{number:03}": "é" * 90 for number in range(100)}
    call = Noted(NOON, wide, wide, wide, wide, canonical(arguments), 200, False, 1e6)
    line = line_of(call, "*.*", key=KEY)
    assert 2000 < len(line) < _PIPE - 128  # 128 bytes are left for a longer replica name: line_of uses r1
    assert said(line)["arguments_left_out"] is True


def test_two_long_names_differ() -> None:
    """A caller cannot hide which tool it called behind a long name."""
    first, second = (said(line_of(a_call(name="x" * 300 + end)))["name"] for end in "ab")
    assert first != second
    assert first.startswith("x" * 100 + " sha256:")


@pytest.mark.parametrize("character", ["x", "\x00", "\U000e0001", '"'])
def test_endless_texts_are_cut(character: str) -> None:
    """Very long texts are shortened, even texts that become longer when they are escaped."""
    endless = character * 100_000
    fields = said(line_of(a_call(**dict.fromkeys(_TEXTS, endless))))
    assert all(100 <= len(fields[field]) <= 200 for field in _TEXTS)


def test_a_caller_can_not_have_a_line_signed() -> None:
    """A caller cannot get a valid hash for a forged entry by sending its bytes as arguments."""
    digests = Digests(KEY)
    forged = b'{"audit":1,"time":"","caller":"nobody","replica":"r1","run":"run1","seq":0,"prev":""'
    signed = digests.arguments(forged).hexdigest()
    entry = read(b'%b,"hash":"%b"}' % (forged, signed.encode()), digests.line)
    assert entry is not None
    assert not entry.true


def test_the_digest_is_an_hmac_with_a_derived_key() -> None:
    """The digest is the HMAC with a key that is derived from AUDIT_KEY, so that others can check it (RFC 2104)."""
    line = said(line_of(a_call({"year": 1980}), key=KEY))
    derived = hmac.digest(KEY, b"audit: arguments", "sha256")
    assert line["arguments_hmac_sha256"] == hmac.new(derived, b'{"year":1980}', "sha256").hexdigest()
    assert "arguments_sha256" not in line


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 31])
def test_a_short_key_is_refused(key: bytes) -> None:
    """A short key is refused; the error says how to make a good key and does not contain the short one."""
    with pytest.raises(ValueError, match="shorter than 32 bytes; run openssl rand -hex 32 to make one"):
        Digests(key)
