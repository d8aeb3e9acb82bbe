"""The toolchains of the peers in other languages."""

import re
from pathlib import Path

from benchmarks.peers.build import Kit, run


def _add_sources(folder: Path) -> None:
    """Add the packages' source to each entry of Cargo.lock.

    The lock in the repository names no registry, so that any registry can serve it. Cargo takes a package without a
    source for a local folder. A lock that Cargo writes itself has the name of the registry.
    """
    lock = folder / "Cargo.lock"
    pinned = lock.read_text()
    lock.unlink()
    run(("cargo", "generate-lockfile"), folder)
    source = re.search(r"^source = .*\n", lock.read_text(), re.MULTILINE)
    lock.write_text(re.sub(r"^(?=checksum = )", source[0] if source else "", pinned, flags=re.MULTILINE))


def _node(folder: str, package: str) -> Kit:
    """Return the kit of a peer for Node.js. `package` is a pattern for the names of its SDKs."""
    return Kit(
        name=folder,
        tools=("node", "npm"),
        version=("node", "--version"),
        install="Node.js 20 or newer, with npm",
        command=("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
        dependency=("package.json", rf'"({package})": "(\S+)"'),
    )


TYPESCRIPT = _node("typescript", r"@modelcontextprotocol\S+")
TMCP = _node("tmcp", "tmcp")
MCP_USE = _node("mcp_use", "mcp-use")
GO = Kit(
    name="go",
    tools=("go",),
    version=("go", "version"),
    install="Go 1.25 or newer",
    command=("go", "build", "-o", "peer", "."),
    dependency=("go.mod", r"require (\S+/go-sdk) v(\S+)"),
)
RUST = Kit(
    name="rust",
    tools=("cargo",),
    version=("cargo", "--version"),
    install="Rust 1.88 or newer, with cargo",
    command=("cargo", "build", "--release", "--locked", "--target-dir", "target"),
    dependency=("Cargo.toml", r'(rmcp) = \{ version = "=([^"]+)'),
    prepare=_add_sources,
)
