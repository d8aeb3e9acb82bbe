"""The forms in which a header may arrive."""

from base64 import b64encode

from mcp.shared.inbound import encode_header_value

FORMS = ["absent", "other", "twice", "twice otherwise", "padded", "encoded", "upper", "empty", "latin"]


def in_form(value: str, form: str) -> list[bytes]:
    """Return the values of a header in a given form. An unknown form gives the correct value."""
    right = encode_header_value(value).encode()
    forms = {
        "absent": [],
        "other": [b"other"],
        "twice": [right, right],
        "twice otherwise": [right, b"other"],
        "padded": [b" \t" + right + b"\t "],
        "encoded": [b"=?base64?" + b64encode(value.encode("utf-8", "replace")) + b"?="],
        "upper": [right.upper()],
        "empty": [b""],
        "latin": [value.encode("utf-8", "replace")],
    }
    return forms.get(form, [right])
