"""What the peers of other languages are built with."""

import json
import re
import tomllib
from pathlib import Path

from benchmarks.peer.kit import Kit, run


def _npm(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "package.json").read_text())["dependencies"]
    return {name: version for name, version in found.items() if name.startswith("@modelcontextprotocol")}


def _go(folder: Path) -> dict[str, str]:
    match = re.search(r"require (\S+/go-sdk) v(\S+)", (folder / "go.mod").read_text())
    return {match[1]: match[2]} if match else {}


def _cargo(folder: Path) -> dict[str, str]:
    rmcp = tomllib.loads((folder / "Cargo.toml").read_text())["dependencies"]["rmcp"]
    return {"rmcp": rmcp["version"].removeprefix("=")}


def _restore_sources(folder: Path) -> None:
    """Say in Cargo.lock where packages come from: a lock that is kept without an address serves every registry.

    Cargo takes packages without a source for folders on this disk. What it calls its registry stands in any lock that
    it writes itself.
    """
    lock = folder / "Cargo.lock"
    pinned = lock.read_text()
    lock.unlink()
    run(("cargo", "generate-lockfile"), folder)
    source = re.search(r"^source = .*\n", lock.read_text(), re.MULTILINE)
    lock.write_text(re.sub(r"^(?=checksum = )", source[0] if source else "", pinned, flags=re.MULTILINE))


TYPESCRIPT = Kit(
    name="typescript",
    tools=("node", "npm"),
    version=("node", "--version"),
    get="Node.js 20 or newer, with npm",
    commands=(("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),),
    keep=("node_modules", "package.json", "v1.mjs", "v2.mjs"),
    pinned=_npm,
)
GO = Kit(
    name="go",
    tools=("go",),
    version=("go", "version"),
    get="Go 1.25 or newer",
    commands=(("go", "build", "-o", "peer", "."),),
    keep=("peer",),
    pinned=_go,
)
RUST = Kit(
    name="rust",
    tools=("cargo",),
    version=("cargo", "--version"),
    get="Rust 1.88 or newer, with cargo",
    commands=(("cargo", "build", "--release", "--locked", "--target-dir", "target"),),
    keep=("target/release/peer",),
    pinned=_cargo,
    prepare=_restore_sources,
)
