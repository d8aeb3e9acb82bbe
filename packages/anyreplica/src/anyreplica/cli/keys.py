"""The command `anyreplica keys`, which creates API keys and checks a file of API keys."""

import argparse
import getpass
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from anyreplica.features.keys.key import LEAST, KeyEntry, KeyFileError, hash_of, new_key, now, problem_of, read
from anyreplica.signing.keypair import new_pair

_DAYS = re.compile(r"([0-9]{1,5})d")

_EPILOG = """\
examples:
  anyreplica keys new ci --expires 90d >> api_keys
  anyreplica keys check api_keys

exit codes:
  0  success
  1  the file, an entry or a key is invalid
  2  wrong arguments
"""


_HASH_EPILOG = """\
example:
  anyreplica keys hash < key.txt

exit codes:
  0  success
  1  the key is too short
  2  wrong arguments
"""

_CHECK_EPILOG = """\
examples:
  anyreplica keys check api_keys
  anyreplica keys check api_keys --key < key.txt

exit codes:
  0  the file is valid
  1  the file is invalid, or no entry has the key
  2  wrong arguments
"""


def main(arguments: list[str]) -> int:
    """Run the command and return the exit code."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except ValidationError as error:
        print(problem_of(error), file=sys.stderr)
    except (KeyFileError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica keys",
        description="""\
Create API keys and check the file of API keys (API_KEYS_FILE). Each line of the
file is a JSON object, the entry of one key. An entry contains the hash of the
key, never the key itself.""",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    new = commands.add_parser(
        "new",
        help="create a key",
        description="""\
Create a key. The command prints the entry for API_KEYS_FILE to stdout and the
key itself to stderr. Nothing stores the key: copy it now.""",
        epilog="""\
examples:
  anyreplica keys new ci --expires 90d >> api_keys
  anyreplica keys new reports --scope reports:read --tool 'sales_*' \\
    --rate 100/s >> api_keys
  anyreplica keys new robot --signing >> api_keys

exit codes:
  0  success
  1  the entry would be invalid
  2  wrong arguments
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    new.add_argument("id", metavar="ID", help="name of the key in logs: letters, digits, '.', '_', '-'")
    new.add_argument("--note", default="", metavar="TEXT", help="note for the readers of the file")
    new.add_argument(
        "--signing",
        action="store_true",
        help="create a key pair for a caller that signs its requests; the entry contains the public key",
    )
    permissions = new.add_argument_group("permissions")
    permissions.add_argument(
        "--owner",
        metavar="NAME",
        help="owner of the jobs that the key may see; keys with the same owner share jobs (default: the id)",
    )
    permissions.add_argument(
        "--scope", action="append", default=[], help="scope for tools with require_scopes; repeatable"
    )
    permissions.add_argument(
        "--tool",
        action="append",
        metavar="PATTERN",
        help="pattern of the tools that the key may use, such as 'sales_*'; repeatable (default: all tools)",
    )
    limits = new.add_argument_group("limits")
    limits.add_argument(
        "--rate", help="rate limit for calls, such as 100/s, 600/m, 5000/h or 20000/d (default: RATE_LIMIT)"
    )
    limits.add_argument(
        "--burst", type=float, metavar="N", help="maximum number of calls in a burst (default: RATE_BURST)"
    )
    limits.add_argument(
        "--concurrent", type=int, metavar="N", help="maximum number of calls in flight (default: RATE_CONCURRENT)"
    )
    validity = new.add_argument_group("validity")
    validity.add_argument(
        "--not-before", metavar="TIME", help="start: a time such as 2026-12-01, or 7d for in 7 days (default: now)"
    )
    validity.add_argument(
        "--expires",
        metavar="TIME",
        help="end: a time such as 2027-03-01T12:00:00Z, or 90d: 90 days from now (default: never)",
    )
    new.set_defaults(run=_new)
    hashed = commands.add_parser(
        "hash",
        help="print the hash of a key",
        description="""\
Read a key from stdin (or ask for it on a terminal) and print its hash for
API_KEYS_FILE.""",
        epilog=_HASH_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hashed.set_defaults(run=_hash)
    check = commands.add_parser(
        "check",
        help="check a file of keys and list its entries",
        description="""\
Check a file of API keys and list its entries: state, expiry, limits and
permissions.""",
        epilog=_CHECK_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("file", type=Path, metavar="FILE", help="file of API keys (API_KEYS_FILE)")
    check.add_argument(
        "--key",
        action="store_true",
        help="read a key from stdin (or ask for it on a terminal) and list only its entry",
    )
    check.set_defaults(run=_check)
    return parser


def _new(options: argparse.Namespace) -> int:
    digest = public = None
    if options.signing:
        secret, public = new_pair()
    else:
        secret = new_key()
        digest = hash_of(secret)
    entry = KeyEntry(
        id=options.id,
        hash=digest,
        public_key=public,
        owner=options.owner,
        scopes=tuple(options.scope),
        tools=tuple(options.tool) if options.tool else None,
        rate=options.rate,
        burst=options.burst,
        concurrent=options.concurrent,
        not_before=_time(options.not_before),
        expires=_time(options.expires),
        note=options.note,
    )
    print(entry.model_dump_json(exclude_defaults=True), flush=True)
    what = "private key" if options.signing else "key"
    print(
        f"This is the {what} of {entry.id}. Copy it now: it is not stored. Its entry for API_KEYS_FILE is on stdout.",
        file=sys.stderr,
    )
    print(secret.strip(), file=sys.stderr)
    return 0


def _hash(_: argparse.Namespace) -> int:
    key = _read_key()
    if len(key) < LEAST:
        raise ValueError(
            f"A key with fewer than {LEAST} characters can be guessed; create a key with `anyreplica keys new`."
        )
    print(hash_of(key))
    return 0


def _check(options: argparse.Namespace) -> int:
    entries = read(options.file)
    if options.key:
        digest = hash_of(_read_key())
        entries = [entry for entry in entries if entry.hash == digest]
        if not entries:
            print(f"{options.file}: no entry has this key.", file=sys.stderr)
            return 1
    rows = [("id", "state", "expires", "rate", "tools", "scopes", "note"), *map(_row, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(entry: KeyEntry) -> tuple[str, ...]:
    return (
        entry.id,
        entry.state(now()),
        entry.expires.strftime("%Y-%m-%d %H:%M %Z") if entry.expires else "never",
        entry.rate or "-",
        " ".join(entry.tools) if entry.tools is not None else "all",
        " ".join(entry.scopes) or "-",
        entry.note,
    )


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    days = _DAYS.fullmatch(text)
    if days:
        return now().replace(microsecond=0) + timedelta(days=int(days[1]))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write it like 2027-03-01, 2027-03-01T12:00:00Z or 90d (in 90 days)"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=now().tzinfo)


def _read_key() -> str:
    """Read a key from a pipe, or ask for it without an echo.

    The key is not an argument: other users of the machine could read it in the list of processes.
    """
    return (getpass.getpass("Key: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
