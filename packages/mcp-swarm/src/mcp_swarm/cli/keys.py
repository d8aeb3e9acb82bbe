"""`mcp-swarm keys`: make keys, and look at a file of them."""

import argparse
import getpass
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from mcp_swarm.auth.key import LEAST, KeyEntry, hash_of, new_key, now, problem_of
from mcp_swarm.auth.key_file import KeyFileError, read
from mcp_swarm.signing.keypair import new_pair

_DAYS = re.compile(r"([0-9]{1,5})d")


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code."""
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
        prog="mcp-swarm keys",
        description="Keys of callers (API_KEYS_FILE). The file holds a JSON object a line and no key, only hashes.",
        epilog="Exit codes: 0 done; 1 the file, the entry or the key is not good; 2 wrong arguments.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser(
        "new",
        help="make a key: its entry goes to stdout, the key itself, once, to stderr",
        description="Make a key: mcp-swarm keys new ci --expires 90d >> api_keys",
    )
    new.add_argument("id", help="its name in logs: letters, digits, '.', '_', '-'")
    new.add_argument("--owner", help="whose jobs it sees; keys of one tenant share it (default: its id)")
    new.add_argument("--scope", action="append", default=[], help="what tools with require_scopes ask for; repeatable")
    new.add_argument("--tool", action="append", help="a pattern of tools that it may use; repeatable (default: all)")
    new.add_argument("--rate", help="calls, as 100/s, 600/m, 5000/h or 20000/d (default: RATE_LIMIT)")
    new.add_argument("--burst", type=float, help="calls that may come at once (default: RATE_BURST)")
    new.add_argument("--concurrent", type=int, help="calls that may run at once (default: RATE_CONCURRENT)")
    new.add_argument("--not-before", metavar="TIME", help="from when it is good, as 2026-12-01 or in 7d")
    new.add_argument("--expires", metavar="TIME", help="until when, as 2027-03-01T12:00:00Z or in 90d")
    new.add_argument("--note", default="", help="for those who read the file")
    new.add_argument(
        "--signing", action="store_true", help="for a caller that signs: a key pair, of which the file has the half"
    )
    new.set_defaults(run=_new)
    hashed = commands.add_parser("hash", help="print the hash of a key that stdin gives")
    hashed.set_defaults(run=_hash)
    check = commands.add_parser("check", help="check a file, and list its keys")
    check.add_argument("file", type=Path)
    check.add_argument("--key", action="store_true", help="say whose the key is that stdin gives")
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
    print(f"The {what} of {entry.id}, shown this once; its line for API_KEYS_FILE went to stdout:", file=sys.stderr)
    print(secret.strip(), file=sys.stderr)
    return 0


def _hash(_: argparse.Namespace) -> int:
    key = _given()
    if len(key) < LEAST:
        raise ValueError(f"a key of fewer than {LEAST} characters can be guessed; mcp-swarm keys new makes one")
    print(hash_of(key))
    return 0


def _check(options: argparse.Namespace) -> int:
    entries = read(options.file)
    if options.key:
        digest = hash_of(_given())
        entries = [entry for entry in entries if entry.hash == digest]
        if not entries:
            print("nobody's", file=sys.stderr)
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
        raise ValueError(f"{text!r} is no time; one is like 2027-03-01, 2027-03-01T12:00:00Z or 90d") from None
    return time if time.tzinfo else time.replace(tzinfo=now().tzinfo)


def _given() -> str:
    """The key, from a pipe or typed unseen. Not an argument, which other users of the machine could read."""
    return (getpass.getpass("Key: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
