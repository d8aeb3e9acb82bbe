"""`anyreplica init`: the files that deploy an existing server."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from anyreplica.cli.init import main
from anyreplica.cli.init.project import name_of
from conftest import ROOT, run

SERVER = """from fastmcp import FastMCP

mcp = FastMCP("Shop")


@mcp.tool
def price(item: str) -> int:
    \"\"\"Return a price.\"\"\"
    return len(item)
"""
FILES = ["Dockerfile", ".dockerignore", "stack.yml"]
PLAIN = '[project]\nname = "shop"\nversion = "1"\ndependencies = ["fastmcp"]\n'
PACKAGE = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n' + PLAIN
SOURCES = '[tool.uv.sources]\nown = { path = "libs/own" }\n'
HASHED = "fastmcp==4.1.7 \\\n    --hash=sha256:00\n"
WHEEL = '"$(echo anyreplica-wheel/anyreplica-*.whl)$EXTRAS"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a server and the list of its packages."""
    found = tmp_path / "My Shop"
    found.mkdir()
    (found / "server.py").write_text(SERVER)
    (found / "requirements.txt").write_text("fastmcp\n")
    return found


def init(folder: Path, *arguments: str) -> int:
    """Run the command in a folder and return the exit code."""
    return main([*arguments, "--folder", str(folder)])


def dockerfile(folder: Path) -> str:
    """Return the Dockerfile without comments, with each instruction in one line."""
    text = re.sub(r"^#.*\n", "", (folder / "Dockerfile").read_text(), flags=re.MULTILINE)
    return re.sub(r"\s*\\\n\s*", " ", text)


def test_it_writes_three_files_and_a_wheel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name of the image and of the stack is that of the folder. The output has the commands that come next."""
    before = {file.name for file in folder.iterdir()}
    assert init(folder) == 0
    assert {file.name for file in folder.iterdir()} - before == {*FILES, "anyreplica-wheel"}
    said = capsys.readouterr().out
    assert all(f"  written    {name}" in said for name in FILES)
    assert "docker build -t my-shop:1 ." in said
    assert "docker stack deploy --detach=false -c stack.yml my-shop" in said
    assert 'CMD ["anyreplica", "run", "server.py"]' in dockerfile(folder)


def test_a_path_is_that_of_the_image(folder: Path) -> None:
    """A path on this machine means nothing there."""
    (folder / "src").mkdir()
    (folder / "server.py").rename(folder / "src" / "shop.py")
    assert init(folder, f"{folder / 'src' / 'shop.py'}:mcp") == 0
    assert 'CMD ["anyreplica", "run", "src/shop.py:mcp"]' in dockerfile(folder)


def test_the_folder_of_the_wheel_is_no_package(folder: Path) -> None:
    """setuptools takes each folder whose name can be that of a module for a package of the project."""
    before = set(folder.iterdir())
    assert init(folder) == 0
    (added,) = [each for each in set(folder.iterdir()) - before if each.is_dir()]
    assert not added.name.isidentifier()


def test_a_file_that_exists_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only --force replaces it. The wheel is always that of the installed anyreplica."""
    (folder / "Dockerfile").write_text("FROM mine\n")
    (folder / "anyreplica-wheel").mkdir()
    (folder / "anyreplica-wheel" / "anyreplica-0.0.1-py3-none-any.whl").touch()
    assert init(folder) == 0
    assert (folder / "Dockerfile").read_text() == "FROM mine\n"
    assert "kept       Dockerfile (it is different; --force replaces it)" in capsys.readouterr().out
    assert len(list((folder / "anyreplica-wheel").iterdir())) == 1
    assert init(folder, "--force") == 0
    assert "FROM mine" not in (folder / "Dockerfile").read_text()
    capsys.readouterr()
    assert init(folder) == 0
    said = capsys.readouterr().out
    assert all(f"  unchanged  {name}" in said for name in FILES)


@pytest.mark.parametrize(
    ("files", "copied", "installed"),
    [
        ({"requirements.txt": "fastmcp\n"}, "COPY requirements.txt ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"requirements.txt": "-r base.txt\n"}, "COPY . ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"requirements.txt": "./own\n"}, "COPY . ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"requirements.txt": "libs/own\n"}, "COPY . ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"requirements.txt": "own @ file:./libs/own\n"}, "COPY . ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"requirements.txt": "fastmcp\n", "pyproject.toml": PACKAGE}, "COPY . ./", f"requirements.txt . {WHEEL}"),
        ({"requirements.txt": HASHED, "pyproject.toml": PACKAGE}, "COPY . ./", f"-c installed.txt . {WHEEL}"),
        ({"pyproject.toml": PLAIN + SOURCES, "uv.lock": ""}, "COPY . ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"pyproject.toml": PACKAGE.replace('version = "1"', 'dynamic = ["version"]')}, "COPY . ./", "_VERSION=0"),
        ({"requirements.txt": HASHED}, "COPY requirements.txt ./", f"pip install -c installed.txt {WHEEL}"),
        ({"pyproject.toml": PACKAGE}, "COPY . ./", f"pip install . {WHEEL}"),
        ({"pyproject.toml": PLAIN}, "COPY pyproject.toml ./", f"pip install -r requirements.txt {WHEEL}"),
        ({"pyproject.toml": PLAIN, "uv.lock": ""}, "COPY pyproject.toml uv.lock ./", "uv export --quiet --frozen"),
        ({"pyproject.toml": PACKAGE, "uv.lock": ""}, "COPY . ./", f"pip install -r requirements.txt . {WHEEL}"),
        ({"requirements.txt": "fastmcp\n", "pyproject.toml": "[tool.ruff]\n"}, "COPY requirements.txt ./", WHEEL),
    ],
)
def test_the_packages_are_those_of_the_project(
    folder: Path, files: dict[str, str], copied: str, installed: str
) -> None:
    """They come from requirements.txt, uv.lock or pyproject.toml, together with anyreplica."""
    (folder / "requirements.txt").unlink()
    for name, text in files.items():
        (folder / name).write_text(text)
    assert init(folder) == 0
    stage = dockerfile(folder).rpartition("\nFROM ")[0]
    assert copied in stage
    assert installed in stage


OTHERS = [
    "# anyreplica",
    "fastmcp==4.1.7 \\",
    "    --hash=sha256:00",
    "anyreplica-tools==1",
    "shop @ git+https://git.example.com/anyreplica#subdirectory=shop",
    "git+https://git.example.com/anyreplica#egg=shop",
    "./anyreplica/shop",
    "-r base.txt",
]


_PIN = "==0.2.0"
"""A version, apart from the name: no text of the repository may install anyreplica by its name."""


@pytest.mark.servers
@pytest.mark.parametrize(
    "line",
    [
        "anyreplica",
        f"anyreplica{_PIN}",
        "AnyReplica [jobs,local] >= 0.2 ; python_version > '3'  # ours",
        f"anyreplica{_PIN} \\\n    --hash=sha256:00 \\\n    --hash=sha256:01",
        "anyreplica[local] @ git+https://git.example.com/anyreplica#subdirectory=packages/anyreplica",
        "git+https://git.example.com/anyreplica@v1#subdirectory=packages/anyreplica",
        "git+https://git.example.com/anyreplica.git#egg=anyreplica[jobs]",
        "https://example.com/anyreplica-0.2.0-py3-none-any.whl#sha256=00",
        "./anyreplica-wheel/anyreplica-0.2.0-py3-none-any.whl",
        "-e ../anyreplica/packages/anyreplica",
        "../anyreplica/packages/anyreplica[local]",
    ],
)
def test_anyreplica_comes_from_the_wheel_only(folder: Path, line: str) -> None:
    """A second source would conflict with the wheel, and an index may have a package of somebody else."""
    assert init(folder) == 0
    stage = dockerfile(folder).rpartition("\nFROM ")[0]
    (command,) = re.findall(r"sed -Ei .* requirements.txt(?= && pip install -r)", stage)
    (folder / "requirements.txt").write_text("\n".join([*OTHERS, line, *OTHERS, ""]))
    subprocess.run(["sh", "-c", command], cwd=folder, check=True)
    assert (folder / "requirements.txt").read_text().splitlines() == [*OTHERS, *OTHERS]


def test_a_package_from_a_git_repository_needs_git(folder: Path) -> None:
    """The base image has no git."""
    assert init(folder) == 0
    assert "install -y --no-install-recommends git" not in dockerfile(folder)
    (folder / "requirements.txt").write_text("shop @ git+https://git.example.com/shop\n")
    assert init(folder, "--force") == 0
    assert "install -y --no-install-recommends git" in dockerfile(folder)


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (
            lambda folder: (folder / "server.py").unlink(),
            [],
            "no server found (fastmcp.json, server.py, main.py, app.py)",
        ),
        (lambda folder: (folder / "requirements.txt").unlink(), [], "no requirements.txt, and no pyproject.toml"),
        (lambda folder: (folder / "requirements.txt").rename(folder / "pyproject.toml"), [], "pyproject.toml: "),
        (lambda _: None, ["shop.py:mcp"], "shop.py:mcp: "),
        (lambda folder: (folder.parent / "shop.py").touch(), ["../shop.py"], "the file is outside of"),
        (lambda folder: (folder / "requirements.txt").write_bytes("fastmcp".encode("utf-16")), [], "is not UTF-8"),
        (
            lambda folder: (folder / "pyproject.toml").write_text(
                PACKAGE.replace('"fastmcp"', '"anyreplica[jobs] @ git+https://git.example.com/anyreplica"')
            ),
            [],
            "remove the URL of anyreplica in dependencies",
        ),
        (shutil.rmtree, [], "there is no such folder"),
    ],
)
def test_what_is_missing_is_named(
    folder: Path, change: Any, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written then."""
    change(folder)
    assert init(folder, *arguments) == 1
    assert said in capsys.readouterr().err
    assert not (folder / "Dockerfile").exists()


@pytest.mark.parametrize(
    "arguments", [["--name", "My Shop"], ["--name", "shop-"], ["--name", "x" * 41], ["--port", "0"], ["--port", "x"]]
)
def test_a_wrong_argument_is_refused(folder: Path, arguments: list[str]) -> None:
    """The name must be one for images and stacks."""
    with pytest.raises(SystemExit) as ended:
        init(folder, *arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(("folder", "name"), [("Shop_2", "shop-2"), ("__", "mcp-server"), ("x" * 80, "x" * 40)])
def test_the_name_of_a_folder_becomes_that_of_an_image(folder: str, name: str) -> None:
    """Images and stacks take lower-case letters, digits and hyphens."""
    assert name_of(Path("/") / folder) == name


def test_the_replicas_run_as_those_of_the_template(folder: Path) -> None:
    """What the stack file of the template says about replicas holds here, too."""
    assert init(folder, "--port", "8200") == 0
    own, template = (yaml.safe_load((at / "stack.yml").read_text())["services"]["mcp"] for at in (folder, ROOT))
    assert own["ports"][0].pop("published") == "${PORT:-8200}"
    template["ports"][0].pop("published")
    template["deploy"].pop("labels")
    for key in (
        "deploy",
        "ports",
        "volumes",
        "read_only",
        "cap_drop",
        "ulimits",
        "stop_grace_period",
        "secrets",
        "logging",
    ):
        assert own[key] == template[key], key
    assert own["environment"].items() <= template["environment"].items()


def test_the_comments_of_the_stack_file_are_valid(folder: Path) -> None:
    """Without their comment signs, the lines about a key and a Redis are parts of a stack file."""
    assert init(folder) == 0
    text = (folder / "stack.yml").read_text()
    keys = "AUTH_ENABLED|REDIS_URL|- auth_token|auth_token:|redis:|image: redis|command:|deploy:|endpoint_mode|external"
    stack = yaml.safe_load(re.sub(rf"^( *)# (?= *({keys}))", r"\1", text, flags=re.MULTILINE))
    replica, redis = stack["services"]["mcp"], stack["services"]["redis"]
    assert replica["environment"]["AUTH_ENABLED"] == "true"
    assert replica["environment"]["REDIS_URL"] == "redis://redis:6379/0"
    assert replica["secrets"] == ["request_state_keys", "auth_token"] == list(stack["secrets"])
    assert redis["deploy"] == {"endpoint_mode": "dnsrr"}


@pytest.mark.servers
@pytest.mark.slow
def test_the_wheel_installs(folder: Path, tmp_path: Path) -> None:
    """pip accepts the wheel, the command runs from it, and it has every file of the package."""
    assert init(folder) == 0
    (wheel,) = (folder / "anyreplica-wheel").iterdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(wheel)], check=True, timeout=100)
    command = str(tmp_path / "site" / "bin" / "anyreplica")
    done = run(command, "check", str(folder / "server.py"), PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    assert "price" in done.stdout
    assert not [name for name in ZipFile(wheel).namelist() if "__pycache__" in name]
    with (ROOT / "packages" / "anyreplica" / "pyproject.toml").open("rb") as file:
        assert wheel.name == f"anyreplica-{tomllib.load(file)['project']['version']}-py3-none-any.whl"
