"""Tests of the parts that a signature must cover, and of changes to a signed request."""

import base64
import itertools
from dataclasses import replace

import pytest

from anyreplica.features.signatures.signed_requests import is_signed
from tests.signing.calls import (
    CALL,
    CALLS,
    DIGEST,
    DIGESTED,
    KEY,
    METHOD,
    NONCE,
    NOW,
    OTHER_KEY,
    PARAMETERS,
    PATH,
    USUAL,
    WRONG,
    Call,
    check,
    refusal,
)


@pytest.mark.parametrize("call", CALLS)
def test_a_validly_signed_request_is_accepted(call: Call) -> None:
    """A validly signed request with any method, target and body is accepted, and the key's id is returned."""
    assert check(call.signed()) == "ci"
    assert check(call.signed(OTHER_KEY, "nightly")) == "nightly"


@pytest.mark.parametrize("what", ["method", "path", "query", "body"])
def test_any_change_is_refused(what: str) -> None:
    """A change of the method, the path, the query or the body is refused."""
    for call, other in itertools.permutations(CALLS, 2):
        changed = replace(call.signed(), **{what: getattr(other, what)})
        if getattr(call, what) == getattr(other, what):
            assert check(changed) == "ci"
        else:
            refusal(changed)


def test_a_change_of_a_header_that_is_covered_is_refused() -> None:
    """A change of a covered header is refused; a change of another header is not noticed."""
    call = DIGESTED.plus(x_tenant="blue")
    covering = call.signed_over([*USUAL, ('"x-tenant"', "blue")])
    assert check(covering) == "ci"
    for other in ("red", "Blue", "blue,", "blue blue", "blu"):
        assert refusal(covering.replace("x-tenant", other)) == WRONG
    assert refusal(covering.replace("x-tenant", None)) == 'Covered header field "x-tenant" not found in the message.'
    assert check(call.signed_over(USUAL).replace("x-tenant", "red")) == "ci"


@pytest.mark.parametrize("name", ["signature-input", "signature", "content-digest"])
def test_a_change_of_the_signatures_own_headers_is_refused(name: str) -> None:
    """A change of any character in the signature's own headers is refused, except in the label."""
    call = CALL.signed()
    value = dict(call.headers)[name]
    first = value.index("=") + 1 if name != "content-digest" else 0
    last_symbol = len(value) - 4  # the last Base64 symbol of a signature has unused bits (RFC 4648, section 3.5)
    for place in range(first, len(value)):
        for character in {"A", "0", "~", '"', ";", ")"} - {value[place]}:
            if name != "signature" or place != last_symbol:
                refusal(call.replace(name, value[:place] + character + value[place + 1 :]))


EXTRA = f'{PARAMETERS};expires={NOW + 30};tag="mcp";alg="ed25519"'


@pytest.mark.parametrize(
    "change",
    [
        (f"created={NOW}", f"created={NOW + 1}"),
        (f"expires={NOW + 30}", f"expires={NOW + 31}"),
        (f";expires={NOW + 30}", ""),
        ('"ci"', '"nightly"'),
        (NONCE, NONCE + "2"),
        ('"mcp"', '"mpc"'),
        (';tag="mcp"', ""),
        (';alg="ed25519"', ""),
        ('"@path" ', '"@path" "@authority" '),
        ('"@method" "@path"', '"@path" "@method"'),
    ],
)
def test_a_change_of_a_parameter_is_refused(change: tuple[str, str]) -> None:
    """A change of a parameter is refused, also of an optional one and of the key's id."""
    call = DIGESTED.signed_over(USUAL, EXTRA)
    assert check(call) == "ci"
    value = dict(call.headers)["signature-input"]
    assert change[0] in value
    assert refusal(call.replace("signature-input", value.replace(*change))) == WRONG


def test_an_unknown_key_gets_the_error_of_a_wrong_signature() -> None:
    """An unknown key gets the same error as a wrong signature, so that nobody can find out which ids exist."""
    assert refusal(CALL.signed(KEY, "unknown")) == refusal(CALL.signed(OTHER_KEY, "ci")) == WRONG


QUERY = ('"@query"', "?a=1")
REQUEST_TARGET = ('"@request-target"', "/mcp?a=1")
TARGET_URI = ('"@target-uri"', "http://swarm.example:8150/mcp?a=1")
HOST = [('"@authority"', "swarm.example:8150"), ('"@scheme"', "http")]


@pytest.mark.parametrize(
    "target", [[PATH, QUERY], [REQUEST_TARGET], [TARGET_URI], [PATH, QUERY, *HOST], [PATH, QUERY, TARGET_URI]]
)
def test_the_target_is_covered_in_several_ways(target: list[tuple[str, str]]) -> None:
    """The target may be covered in several ways, and additional components are allowed."""
    call = replace(DIGESTED, query="a=1")
    assert check(call.signed_over([METHOD, *target, DIGEST])) == "ci"


@pytest.mark.parametrize(
    ("components", "lacks"),
    [
        ([], "@method and @path and @query and content-digest"),
        ([PATH, QUERY, DIGEST], "@method"),
        ([METHOD, DIGEST], "@path and @query"),
        (USUAL, "@query"),
        ([METHOD, QUERY, DIGEST], "@path"),
        ([METHOD, *HOST, DIGEST], "@path and @query"),
        ([METHOD, REQUEST_TARGET], "content-digest"),
        ([METHOD, TARGET_URI], "content-digest"),
    ],
)
def test_an_uncovered_part_is_named(components: list[tuple[str, str]], lacks: str) -> None:
    """The error names what a valid signature does not cover."""
    call = replace(DIGESTED, query="a=1").signed_over(components)
    assert refusal(call) == f"The signature must cover {lacks}."


@pytest.mark.parametrize(
    "part",
    [
        ('"content-digest";key="sha-256"', DIGEST[1].removeprefix("sha-256=")),
        ('"content-digest";sf', DIGEST[1]),
        ('"content-digest";bs', f":{base64.b64encode(DIGEST[1].encode()).decode()}:"),
        ('"@query-param";name="a"', "1"),
        ('"content-type";bs', ":YXBwbGljYXRpb24vanNvbg==:"),
    ],
)
def test_parts_of_components_are_refused(part: tuple[str, str]) -> None:
    """A signature that covers a part of a component, as the RFC allows, is refused, even if it covers the whole too."""
    call = replace(DIGESTED, query="a=1")
    whole = [METHOD, PATH, QUERY, DIGEST]
    instead = [component for component in whole if component[0].strip('"') not in part[0]]
    for components in ([*whole, part], [part, *whole], [*instead, part]):
        said = refusal(call.signed_over(components))
        assert said == "The signature covers a component with parameters; cover only whole components."


@pytest.mark.parametrize(
    "components",
    [
        [METHOD, ('"@path";req', "/mcp"), DIGEST],
        [('"@method";req', "POST"), PATH, DIGEST],
        [METHOD, PATH, ('"content-digest";req', DIGEST[1])],
        [METHOD, PATH, ('"content-digest";tr', DIGEST[1])],
        [METHOD, ('"@path";name="x"', "/mcp"), DIGEST],
        [METHOD, ('"@path";sf', "/mcp"), DIGEST],
        [*USUAL, ('"@status"', "200")],
        [*USUAL, ('"@signature-params"', "()")],
        [*USUAL, ('"x-nothing"', "")],
        [*USUAL, PATH],
        [*USUAL, ('"Content-Type"', "application/json")],
        [*USUAL, ("content-type", "application/json")],
        [*USUAL, ('"@nothing"', "")],
        [*USUAL, ("5", "5")],
    ],
)
def test_components_that_make_no_sense(components: list[tuple[str, str]]) -> None:
    """Invalid components are refused, and the error shows no internals of the library."""
    said = refusal(DIGESTED.signed_over(components))
    assert said != WRONG
    for inside in ("Error", "lambda", "argument", "assert", "None"):
        assert inside not in said


def test_a_body_that_was_added_or_taken_away() -> None:
    """A body cannot be added or removed: a signature without a digest is valid only for a request without a body."""
    bare = replace(CALL, body=b"").signed_over([METHOD, PATH])
    assert check(bare) == "ci"
    assert refusal(replace(bare, body=b"{}")) == "The signature must cover content-digest."
    assert refusal(replace(bare, body=b"{}").plus(content_digest=DIGEST[1])) == refusal(replace(bare, body=b"{}"))
    signed = CALL.signed()
    assert refusal(replace(signed, body=b"")) == "Content-Digest does not match the request body."
    assert "not found" in refusal(replace(signed, body=b"").replace("content-digest", None))


def test_a_changed_host_cannot_change_the_path() -> None:
    """A changed Host header cannot change the signed path, although host and path together would give another URL."""
    signed = replace(DIGESTED.signed_over(USUAL), path="/jobs")
    ends = ("/mcp?", "/mcp#", "\\mcp")
    for host in (*(f"swarm.example{end}" for end in ends), "u@swarm.example", "", " ", "h/mcp?x="):
        assert refusal(signed.replace("host", host)) == "A signed request must have a valid Host header."
    assert refusal(signed) == WRONG


def test_hosts_and_authority() -> None:
    """The case of the only Host header and the default port do not matter (RFC 9421, section 2.2.3)."""
    signed = DIGESTED.signed_over([*USUAL, ('"@authority"', "swarm.example")])
    for host in ("swarm.example", "SWARM.example", "swarm.example:80"):
        assert check(signed.replace("host", host)) == "ci"
    for host in ("swarm.example:8150", "other.example", "swarm.example.", "swarm.example:443"):
        assert refusal(signed.replace("host", host)) == WRONG
    assert check(replace(signed, scheme="https").replace("host", "swarm.example:443")) == "ci"
    assert refusal(signed.replace("host", None)) == "A signed request must have a valid Host header."
    twice = "The signed request has the header host twice; send it once."
    assert refusal(signed.plus(host="swarm.example")) == twice


@pytest.mark.parametrize("target", ["*", "", "mcp", "/mcp#a", "/mcp?#a", "/m cp", "/mcp\x00", "/é", '/"', "/%zz"])
def test_targets_that_are_no_paths(target: str) -> None:
    """A target that is not a path is refused, whatever the signer covered."""
    call = replace(DIGESTED, path=target).replace("host", "swarm.example")
    for path in (target, target.partition("#")[0], target.partition("?")[0], "/"):
        refusal(call.signed_over([METHOD, ('"@path"', path), DIGEST]))
        refusal(call.signed_over([METHOD, ('"@path"', path), ('"@query"', "?"), DIGEST]))


def test_a_connect_covers_its_path() -> None:
    """A CONNECT request must cover its path, although the library treats its target as a host."""
    call = replace(CALL, method="CONNECT", body=b"")
    host = [('"@method"', "CONNECT"), ('"@request-target"', "swarm.example:8150")]
    assert refusal(call.signed_over(host)) == WRONG
    assert check(call.signed_over([host[0], ('"@request-target"', "/mcp")])) == "ci"


def test_one_signature() -> None:
    """A request with two signatures is refused, because programs might use different ones."""
    call = CALL.signed()
    fields = dict(call.headers)
    inputs, values = fields["signature-input"], fields["signature"]
    second = (inputs.replace("sig=", "two="), values.replace("sig=", "two="))
    both = call.replace("signature-input", f"{inputs}, {second[0]}").replace("signature", f"{values}, {second[1]}")
    assert refusal(both) == "The request has several signatures; send exactly one."
    assert "Multiple signatures" in refusal(call.replace("signature-input", f"{inputs}, {second[0]}"))
    assert "different labels" in refusal(call.replace("signature-input", second[0]))
    lines = call.plus(signature_input=second[0], signature=second[1])
    assert refusal(lines) == "The signed request has the header signature-input twice; send it once."


@pytest.mark.parametrize("name", ["signature-input", "signature"])
def test_half_a_signature(name: str) -> None:
    """Half a signature names the missing header. It counts as signed, so that it cannot pass as an unsigned request."""
    half = CALL.signed().replace(name, None)
    assert refusal(half) == f"A signed request must have the header {name}."
    assert is_signed(half.scope["headers"])
    assert is_signed(CALL.signed().scope["headers"])
    assert not is_signed(CALL.plus(content_digest="sha-256=::", x_signature="1").scope["headers"])


def test_a_covered_header_that_is_there_twice() -> None:
    """A covered header that occurs twice is refused, because programs might read different ones."""
    tenants = DIGESTED.plus(x_tenant="blue").plus(x_tenant="red")
    digests = CALL.plus(content_digest="unixsum=1").plus(content_digest=DIGEST[1])
    for name, signed in (
        ("x-tenant", tenants.signed_over([*USUAL, ('"x-tenant"', "blue, red")])),
        ("content-digest", digests.signed_over([METHOD, PATH, ('"content-digest"', f"unixsum=1, {DIGEST[1]}")])),
    ):
        assert refusal(signed) == f"The signed request has the header {name} twice; send it once."
    assert check(CALL.plus(accept="a").plus(accept="b").signed()) == "ci"


def test_headers_that_are_too_long() -> None:
    """A header that is too long is refused before it is parsed."""
    call = CALL.signed()
    for name, most in (("signature-input", 4096), ("signature", 512)):
        long = dict(call.headers)[name] + " " * 5000
        assert refusal(call.replace(name, long)) == f"Header {name} too long: the limit is {most} characters."
    long = f"{DIGEST[1]}, other={'9' * 9}{' ' * 500}"
    signed = CALL.plus(content_digest=long).signed_over([METHOD, PATH, ('"content-digest"', long.strip())])
    assert refusal(signed) == "Header content-digest too long: the limit is 512 characters."


def test_bytes_beyond_ascii_can_not_be_covered() -> None:
    """A covered header with other characters than ASCII is refused (RFC 9421, section 2.5)."""
    signed = DIGESTED.plus(x_tenant="blé").signed_over([*USUAL, ('"x-tenant"', "blé")])
    assert "non-ASCII" in refusal(signed)
