"""Structured fields (RFC 9651), valid and invalid: the texts of `Signature-Input` and `Content-Digest`."""

from tests.damage.dice import Dice

_PARTS = [*'()";=:,?@%*-.0aZ \t\\', "\x00", "\x7f", "é", "9" * 16, '"@method"', '"@path"', '"content-digest"']
_PARTS += ['"@query-param"', '"host"', ";key", ";req", ";bs", ";sf", ";name", "sig", "sig=", "()", ";created"]
_PARTS += ["=1700000000", ';keyid="ci"', ';nonce="a-nonce-of-some-length"', '="host"', "sha-256=", ":AAAA:"]
_PARTS += ["1.5", "?1", "@99999999999", '%"f%c3%bc"']

VECTORS = ["sugar, tea, rum", '("foo" "bar"), ("baz"), ("bat" "one"), ()']
VECTORS += ['("foo"; a=1;b=2);lvl=5, ("bar" "baz");lvl=1', 'abc;a=1;b=2; cde_456, (ghi;jk=4 l);q="9";r=w']
VECTORS += ['en="Applepie", da=:w4ZibGV0w6ZydGU=:', "a=?0, b, c; foo=bar", "a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid"]
VECTORS += ["42", "4.5", '"hello world"', "foo123/456", ":cHJldGVuZCB0aGlzIGlzIGJpbmFyeSBjb250ZW50Lg==:", "?1"]
VECTORS += ["@1659578233", '%"This is intended for display to %c3%bcsers."']
"""Fields and values: the examples of RFC 9651, sections 3.1 to 3.3, and texts that section 4.2 does not accept."""
VECTORS += ["", "sig", "sig=", "sig=(", 'sig=("a"', 'sig=("a""b")', 'sig=("a",)', "sig=();", "sig=();A=1", "sig=(),"]
VECTORS += ["sig=(), sig=()", "=()", "Sig=()", '"unclosed', '"\\a"', '"é"', "1.", "1.2345", "-", "9999999999999999"]
VECTORS += ["1234567890123.1", ":AAA", ":é:", "?2", "@1.5", "@99999999999999999", '%"f%C3%BC"', '%"%ff"', "\x00"]
VECTORS += ["\x7f", "sig=" + "(" * 4_000, "sig=" + '"a" ' * 1_000, "sig=:" + "A" * 500]


def syntax(dice: Dice) -> str:
    """Return up to 24 parts of structured fields in any order."""
    return "".join(dice.one_of(_PARTS) for _ in range(dice.below(25)))


def replaced(dice: Dice, value: str) -> str:
    """Return a field in which other parts of structured fields replace up to nine characters."""
    place = dice.below(len(value) + 1)
    return value[:place] + syntax(dice) + value[place + dice.below(10) :]
