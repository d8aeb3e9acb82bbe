"""Write the bill of materials of a release (CycloneDX 1.5, JSON): make sbom.

uv resolves the versions that `locks/server.lock` pins, and adds how they depend on each other. uv also
lists the files of each component, and the bill keeps only the files whose hashes are in the lock. A component without
such a file is an error, and so is a pin without a component.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parent.parent


def exported(uv: str) -> dict[str, Any]:
    """Return what uv exports for the pinned versions."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "lock.py")
        script.write_bytes(subprocess.run([ROOT / ".ci" / "pins"], check=True, capture_output=True).stdout)
        export = [uv, "export", "--quiet", "--script", str(script), "--format", "cyclonedx1.5"]
        bill: dict[str, Any] = json.loads(subprocess.run(export, check=True, capture_output=True).stdout)
    return bill


def pinned() -> dict[str, set[str]]:
    """Return the SHA-256 hashes of each `name==version` in the lock."""
    pins: dict[str, set[str]] = {}
    for line in (ROOT / "locks" / "server.lock").read_text().splitlines():
        if found := re.match(r"([\w.-]+)(?:\[.*\])?==(\S+)", line):
            hashes = pins.setdefault(f"{found[1]}=={found[2]}", set())
        elif found := re.match(r" +--hash=sha256:(\w+)", line):
            hashes.add(found[1])
    return pins


def completed(bill: dict[str, Any]) -> dict[str, Any]:
    """Name the package as the subject of the bill, and keep only the files whose hashes are in the lock."""
    with (PACKAGE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    pins = pinned()
    for component in bill["components"]:
        hashes = pins.pop(f"{component['name']}=={component['version']}", set())
        component["externalReferences"] = [
            file
            for file in component["externalReferences"]
            if any(each["content"] in hashes for each in file["hashes"])
        ]
        if not component["externalReferences"]:
            raise SystemExit(f"{component['name']} {component['version']}: locks/server.lock has no hash of its files.")
    if pins:
        raise SystemExit(f"Not in the bill of materials: {', '.join(pins)}.")
    subject = bill["metadata"]["component"]
    subject |= {"name": project["name"], "version": project["version"], "licenses": [{"license": {"id": "MIT"}}]}
    subject["purl"] = f"pkg:pypi/{project['name']}@{project['version']}"
    subject.pop("properties")  # uv marks a subject without a name with this property.
    return bill


def main() -> None:
    """Write the bill to a file: `python sbom.py PATH-OF-UV FILE`."""
    uv, file = sys.argv[1:]
    Path(file).write_text(json.dumps(completed(exported(uv)), indent=2) + "\n")


if __name__ == "__main__":
    main()
