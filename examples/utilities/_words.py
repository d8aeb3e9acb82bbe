"""Checks of single words; each function returns the reason why a text is invalid, or an empty string if it is valid."""

import ipaddress
import re
from datetime import datetime

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_DATE_TIME = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[Tt]({_MINUTE}):([0-5][0-9]|60)(?:\.[0-9]+)?(?:[Zz]|([+-]{_MINUTE}))"
)
_NAME = r"[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2}"
_URL = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*://(?:(?:{_NAME}|:)*@)?(?:\[([^]]*)\]|(?:{_NAME})+)(?::([0-9]*))?"
    rf"(?:/(?:{_NAME}|[:@/])*)?(?:\?(?:{_NAME}|[:@/?])*)?(?:#(?:{_NAME}|[:@/?])*)?"
)


def uuid(text: str) -> str:
    """Check a UUID in its usual form (RFC 9562, section 4)."""
    return "" if _UUID.fullmatch(text) else "a UUID has 8-4-4-4-12 hexadecimal digits"


def ipv4(text: str) -> str:
    """Check an IPv4 address in dotted decimals without leading zeros (reason: RFC 6943, section 3.1.1)."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError as error:
        return _cut(str(error))
    return ""


def ipv6(text: str) -> str:
    """Check an IPv6 address (RFC 4291, section 2.2) without a zone."""
    if "%" in text:
        return "an address must not have a zone"
    try:
        ipaddress.IPv6Address(text)
    except ValueError as error:
        return _cut(str(error))
    return ""


def date_time(text: str) -> str:
    """Check a time (RFC 3339, section 5.6); the second 60 is valid only in a leap second, at 23:59 UTC."""
    match = _DATE_TIME.fullmatch(text)
    if not match:
        return "a time must have a form like 2026-01-31T13:30:00Z or 2026-01-31T14:30:00.5+01:00"
    day, minute, second, offset = match.groups(default="+00:00")
    try:
        moment = datetime.fromisoformat(f"{day}T{minute}:{'59' if second == '60' else second}{offset}")
    except ValueError as error:
        return _cut(str(error))
    shift = moment.utcoffset()
    if second == "60" and shift is not None:
        minutes = (moment.hour * 60 + moment.minute - shift.total_seconds() // 60) % (24 * 60)
        if minutes != 24 * 60 - 1:
            return "seconds must be at most 59, except for a leap second at 23:59 UTC"
    return ""


def url(text: str) -> str:
    """Check a URL with scheme and host (RFC 3986, section 3)."""
    match = _URL.fullmatch(text)
    if not match:
        return (
            "a URL must have a form like https://example.com:8443/path?query#fragment; percent-encode other characters"
        )
    address, port = match.groups()
    if address is not None and ipv6(address):
        return "the text in brackets is not an IPv6 address"
    if port and (len(port) > 5 or int(port) > 65535):
        return "a port must be at most 65535"
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"
