"""Tests of a release: the license, the bill of materials and the notes."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PACKAGE, ROOT, run
from tests.template.test_makefile import HERE, made_by_make, make

pytestmark = pytest.mark.slow

CHANGELOG = "docs/reference/changelog.md"
CHANGES = """# Changelog

## [Unreleased]

### Added

- Something new.

## [1.2.0] - 2026-12-01

### Fixed

- A request no longer fails.

## [1.1.0] - 2026-11-01

- Something old.
"""


def test_the_licenses_are_equal() -> None:
    """The package has the same license file as the repository, because it is published without the repository.

    The pyproject.toml at the root names no license: projects get a copy of it, and have no LICENSE file.
    """
    assert (ROOT / "LICENSE").read_text() == (PACKAGE / "LICENSE").read_text()
    assert 'license = "MIT"\nlicense-files = ["LICENSE"]\n' in (PACKAGE / "pyproject.toml").read_text()


@pytest.mark.servers
@made_by_make
def test_the_bill_of_materials_has_what_the_lock_pins(tmp_path: Path) -> None:
    """Each component has the version and a hash of locks/server.lock, and the package is the subject."""
    file = tmp_path / "new" / "sbom.json"
    done = make("sbom", *HERE, f"SBOM={file}")
    assert done.returncode == 0, done.stdout + done.stderr
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("anyreplica", "0.2.0")
    lock = (ROOT / "locks" / "server.lock").read_text()
    pins = set(re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", lock, re.MULTILINE))
    assert {(component["name"], component["version"]) for component in bill["components"]} == pins
    for component in bill["components"]:
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
        hashes = [each["content"] for found in component["externalReferences"] for each in found["hashes"]]
        assert hashes
        assert all(f"sha256:{each}" in lock for each in hashes)
    known = {subject["bom-ref"], *(component["bom-ref"] for component in bill["components"])}
    assert {entry["ref"] for entry in bill["dependencies"]} == known


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A project of version 1.2.0 with the files that `.ci/release` reads."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "release", tmp_path / ".ci" / "release")
    for name in ("pyproject.toml", "src/anyreplica/_version.py"):
        file = tmp_path / "packages" / "anyreplica" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = (PACKAGE / name).read_text()
        file.write_text(re.sub(r'(?m)^(version|__version__) = ".+"$', r'\1 = "1.2.0"', text))
    (tmp_path / CHANGELOG).parent.mkdir(parents=True)
    (tmp_path / CHANGELOG).write_text(CHANGES)
    return tmp_path


def release(project: Path, *tag: str) -> subprocess.CompletedProcess[str]:
    """Run `.ci/release` in a project."""
    return run(str(project / ".ci" / "release"), *tag)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("1.2.0", "1.2.0: a release's tag has the form v1.2.3."),
        ("v1.2", "v1.2: a release's tag has the form v1.2.3."),
        ("v1.3.0", "packages/anyreplica/pyproject.toml: the version is not 1.3.0."),
    ],
)
def test_a_wrong_tag_stops_the_release(released: Path, tag: str, told: str) -> None:
    """A tag that does not fit the package stops the release with one line."""
    done = release(released, tag)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{told}\n")


@pytest.mark.servers
def test_the_notes_are_the_section_of_the_version(released: Path) -> None:
    """The notes contain only the changes of the released version. Its heading must have the version and the day."""
    done = release(released, "v1.2.0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "### Fixed\n\n- A request no longer fails."
    (released / CHANGELOG).write_text(CHANGES.replace(" - 2026-12-01", ""))
    done = release(released, "v1.2.0")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{CHANGELOG}: no heading '## [1.2.0] - YYYY-MM-DD'")


def test_the_versions_of_the_package_are_equal() -> None:
    """pyproject.toml and `anyreplica.__version__` have the same version, and the changelog has a section for it."""
    (version,) = re.findall(r'^version = "(.+)"$', (PACKAGE / "pyproject.toml").read_text(), re.MULTILINE)
    assert f'__version__ = "{version}"' in (PACKAGE / "src" / "anyreplica" / "_version.py").read_text()
    changes = (ROOT / CHANGELOG).read_text()
    headings = re.findall(r"^## (.+)$", changes, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert any(heading.startswith(f"[{version}]") for heading in headings)
    kinds = set(re.findall(r"^### (.+)$", changes, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Migration from 0.1"}
