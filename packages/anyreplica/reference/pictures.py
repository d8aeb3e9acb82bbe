"""Make the pictures of terminals and pages in docs/images: `make pictures` (half a minute; needs chromium).

The pictures show what a clone prints now: three local replicas, a load test, its page, and the console. On a node of a
Swarm where the stack does not run yet, they also show a deployment.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
PORT = "8150"
URL = f"http://localhost:{PORT}"
STACK = "mcp-swarm"

_COLUMNS = 112
_START_SECONDS = 120.0

_FRAME = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>text {{ font: {char_height}px/1 ui-monospace, Menlo, Consolas, monospace; white-space: pre }}
{styles}</style>
<rect width="{terminal_width}" height="{terminal_height}" rx="8" fill="#1e1e2e"/>
<g transform="translate(12, 12)">
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""The frame of an SVG. That of rich loads a font from another host."""


def main() -> int:
    """Write all pictures and return the exit code."""
    with tempfile.TemporaryDirectory() as folder, _replicas(Path(folder)) as shown:
        _write("make-up", f"$ make up\n{shown}")
        options = ["--expect-replicas", "3", "--connections", "fresh", "--html", "report.html"]
        done = subprocess.run(
            [sys.executable, ROOT / "test_swarm_load.py", *options],
            cwd=folder,
            env={**os.environ, "PORT": PORT},
            capture_output=True,
            text=True,
            check=True,
        )
        _write("load-test", f"$ python test_swarm_load.py {' '.join(options)}\n{done.stdout}")
        report = Path(folder) / "report.html"
        _photograph("load-report", report.as_uri(), 1100)
        _photograph_console()
    _write_deployment()
    return 0


def _write_deployment() -> None:
    """Write what a deployment prints, with its first lines after a change. Afterwards, remove the stack."""
    stacks = _docker("stack", "ls", "--format", "{{.Name}}")
    if stacks is None or STACK in stacks.split():
        print(f"left docs/images/make-deploy.svg as it is: no Swarm here, or the stack {STACK} runs")
        return
    try:
        subprocess.run(["make", "--silent", "image"], cwd=ROOT, check=True, capture_output=True)
        first = _make("deploy")
        again = _make("deploy", REPLICAS="5")
        _write("make-deploy", f"$ make deploy\n{first}\n$ REPLICAS=5 make deploy\n{again}")
    finally:
        _make("undeploy")


def _make(target: str, **variables: str) -> str:
    """Run `make` with a target, and return its output."""
    environment = {**os.environ, "PORT": PORT, **variables}
    command = ["make", "--silent", "--no-print-directory", target]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _docker(*arguments: str) -> str | None:
    """Run docker, and return its output. None: there is no docker, or it failed."""
    if not shutil.which("docker"):
        return None
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


@contextmanager
def _replicas(folder: Path) -> Iterator[str]:
    """Run three replicas; the value is what they print until they are ready."""
    log = folder / "log"
    settings = {"MCP_PORT": PORT, "DRAIN_SECONDS": "0", "REPLICA_NAME": "tower", "LOG_LEVEL": "WARNING"}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "--replicas", "3"],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + _START_SECONDS
        while "Ctrl-C stops" not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"The replicas do not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield log.read_text()
    finally:
        process.terminate()
        process.wait()


def _write(name: str, text: str) -> None:
    """Write a terminal as SVG."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"{text.rstrip()}\n"), soft_wrap=False)  # the frame is as high as the empty last line
    svg = console.export_svg(code_format=_FRAME, unique_id="t")
    (IMAGES / f"{name}.svg").write_text(svg)
    print(f"wrote docs/images/{name}.svg")


def _photograph(name: str, url: str, height: int) -> None:
    """Write a page as PNG, as a browser of 1,280 pixels shows it."""
    file = IMAGES / f"{name}.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size=1280,{height}"]
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", *options, f"--user-data-dir={profile}", f"--screenshot={file}", url]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    print(f"wrote docs/images/{file.name}")


def _photograph_console() -> None:
    """Write three tabs of the console as PNG: a call, the swarm, and how to connect."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{URL}/")
        page.get_by_label("Search the tools").fill("echo")
        entry = page.locator('details.entry[data-entry="echo"]')
        entry.locator("summary").first.click()
        entry.locator('[data-name="message"]').fill("any replica answers")
        entry.get_by_role("button", name="Call", exact=True).click()
        entry.locator(".output .result").wait_for()
        page.screenshot(path=IMAGES / "console-tools.png")
        page.get_by_role("tab", name="Swarm").click()
        page.get_by_role("button", name="Send 300 calls").click()
        page.get_by_text("300 calls answered by").wait_for()
        page.screenshot(path=IMAGES / "console-swarm.png", full_page=True)
        page.get_by_role("tab", name="Connect").click()
        page.screenshot(path=IMAGES / "console-connect.png")
        browser.close()
    print("wrote docs/images/console-tools.png, console-swarm.png and console-connect.png")


if __name__ == "__main__":
    sys.exit(main())
