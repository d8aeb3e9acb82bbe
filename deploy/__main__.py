"""Deploys the stack to the Swarm that docker reaches, and waits until it serves.

It shows what changes before it changes anything, and stays with the overlays and the numbers of replicas that run,
unless you name others. Environment variables:

  STACK            name of the stack (mcp-swarm)
  IMAGE            image of the replicas (mcp-swarm:latest)
  OVERLAYS         files beside stack.yml, separated by spaces: deploy/jobs.yml deploy/edge.yml; empty for none
  REPLICAS         number of replicas
  WORKERS          number of workers, with deploy/jobs.yml
  REPEAT_TOOLS     tools that the proxy may call twice, separated by spaces, beside those whose hints say so
  ALLOW_DROP       protecting settings that may be dropped, separated by spaces: AUTH_ENABLED RATE_LIMIT
  DEPLOY_SECONDS   how long to wait until the stack has converged (600)
  DEPLOY_FLAGS     more flags for docker stack deploy

stack.yml and the overlays name further ones, like PORT. Exit codes: 0 it serves; 1 docker failed, Swarm took the update
back, or it didn't converge in time; 2 refused, nothing has changed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

from deploy import difference, image, remembered, repeatable, secret
from deploy.docker import DockerError, docker
from deploy.progress import Progress
from deploy.running import Service, services
from deploy.tasks import tasks, why
from deploy.wanted import Wanted, wanted

_COUNTS = {"mcp": "REPLICAS", "worker": "WORKERS"}
"""The variables of stack.yml and its overlays that say how many tasks a service has."""


class Refused(Exception):
    """Nothing was changed; the text says why."""


def main() -> int:
    """Deploy; returns the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(prog="make deploy", description=__doc__, formatter_class=form).parse_args()
    stack = os.environ.get("STACK", "mcp-swarm")
    try:
        return _deploy(stack, services(stack))
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    except DockerError as error:
        print(error, file=sys.stderr)
        return 1


def _deploy(stack: str, before: dict[str, Service]) -> int:
    overlays = _overlays(before)
    asked = os.environ.get("IMAGE", "mcp-swarm:latest")
    local = image.by_content(asked)
    variables = {"IMAGE": local or asked, "OVERLAYS": " ".join(overlays)}
    if repeatable.EDGE in overlays:
        variables["REPEAT_TOOLS"] = repeatable.tools(local or asked)
    stays = before.keys() & wanted(overlays, **variables).services.keys()
    target = wanted(overlays, **variables, **_counts({name: before[name] for name in stays}))
    _refuse_dropping(before, target)
    for line in secret.make(target.external_secrets):
        print(line)
    _show_changes(stack, target)
    if local:
        _tell_of_nodes(local)
    print(f"Deploying {local or asked} as '{stack}' …", flush=True)
    known = {task.id for task in tasks(stack)}
    if not _converge(stack, target, Progress(stack, before, known), local):
        return 1
    after = services(stack)
    failed = [name for name, service in after.items() if _was_taken_back(before.get(name), service)]
    for name in failed:
        _explain(stack, name, after[name], known)
    if failed:
        return 1
    remembered.remember(stack, target.text)
    _tell_where(stack, after)
    return 0


def _overlays(before: dict[str, Service]) -> list[str]:
    """The overlays that are asked for; those that the stack runs with if nobody asks."""
    asked = os.environ.get("OVERLAYS")
    if asked is not None:
        return [os.path.normpath(file) for file in asked.split()]
    kept = before["mcp"].overlays if "mcp" in before else None
    if kept:
        print(f'Keeping OVERLAYS="{kept}", as the stack runs with them (OVERLAYS= leaves them out).')
    return (kept or "").split()


def _counts(before: dict[str, Service]) -> dict[str, str]:
    """The numbers of tasks that run, where nobody asks for others."""
    counts = {}
    for name, variable in _COUNTS.items():
        running = before[name].replicas if name in before else None
        if running is None or variable in os.environ:
            continue
        counts[variable] = str(running)
        print(f"Keeping {variable}={running}, as many as the stack has.")
    return counts


def _refuse_dropping(before: dict[str, Service], target: Wanted) -> None:
    """Raises Refused if settings would go that keep callers out, and nobody said so."""
    if "mcp" not in before:
        return
    allowed = set(re.split(r"[\s,]+", os.environ.get("ALLOW_DROP", "")))
    dropped = [name for name in difference.dropped(before["mcp"], target.services["mcp"]) if name not in allowed]
    if dropped:
        names = " ".join(dropped)
        ran_with = before["mcp"].overlays
        raise Refused(
            f"This deployment would drop {names}, which the running stack has; nothing has changed.\n"
            + (f'It runs with OVERLAYS="{ran_with}".\n' if ran_with else "")
            + f'If you mean it: ALLOW_DROP="{names}" make deploy'
        )


def _show_changes(stack: str, target: Wanted) -> None:
    old = remembered.recall(stack)
    if old is None:
        return
    changes = difference.lines(old, target.text)
    print("\n".join(["Changes:", *(f"  {line}" for line in changes)]) if changes else "No changes in image or files.")


def _tell_of_nodes(local: str) -> None:
    nodes = len(docker("node", "ls", "--quiet").split())
    if nodes > 1:
        print(
            f"This Swarm has {nodes} nodes, and {local} is in no registry: each node must have it.\n"
            f"  docker save {local} | ssh NODE docker load"
        )


def _converge(stack: str, target: Wanted, progress: Progress, local: str | None) -> bool:
    """Deploy, and print what happens; returns whether the stack has converged in time."""
    seconds = float(os.environ.get("DEPLOY_SECONDS") or 600)
    flags = ["--detach=false", *os.environ.get("DEPLOY_FLAGS", "").split()]
    process = subprocess.Popen(
        ["docker", *target.deploy(stack, *flags)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **target.variables},
    )
    end = time.monotonic() + seconds
    try:
        while process.poll() is None and time.monotonic() < end:
            progress.look()
            time.sleep(0.5)
        if process.poll() is None:
            print(f"Not converged after {seconds:g} s (DEPLOY_SECONDS); Swarm goes on trying.", file=sys.stderr)
            for task in [task for task in tasks(stack) if task.error][-3:]:
                print("\n".join(why(task)), file=sys.stderr)
            return False
    finally:
        process.kill()
        _, said = process.communicate()
    progress.look()
    said = _without_registry(said, local)
    if said:
        print(said, file=sys.stderr)
    return process.returncode == 0


def _without_registry(said: str, local: str | None) -> str:
    """What docker said, but for its warning that an image isn't in a registry, if that is known."""
    if local is not None:
        said = re.sub(
            rf"image {re.escape(local)} could not be accessed on a registry.*?\n\n", "", said, flags=re.DOTALL
        )
    return said.strip()


def _was_taken_back(before: Service | None, after: Service) -> bool:
    began, state = after.update
    return (before is None or before.update[0] != began) and ("rollback" in state or "paused" in state)


def _explain(stack: str, name: str, service: Service, known: set[str]) -> None:
    state = service.update[1]
    print(f"The update of {name} failed, and Swarm went back to what ran before ({state}).", file=sys.stderr)
    its = [task for task in tasks(stack) if task.service == service.found["ID"] and task.id not in known]
    broken = [task for task in its if task.error]
    if broken:
        print("\n".join(f"  {line}" for line in why(broken[-1])), file=sys.stderr)


def _tell_where(stack: str, after: dict[str, Service]) -> None:
    host = urlsplit(docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")).hostname or "localhost"
    entrance = after.get("edge") or after["mcp"]
    if not entrance.published:
        print(f"'{stack}' serves, and publishes no port.")
        return
    url = f"http://{host}:{entrance.published[0]}/mcp"
    print(f"'{stack}' serves on {url}\nAdd it to a client, for example:  claude mcp add --transport http {stack} {url}")


if __name__ == "__main__":
    sys.exit(main())
