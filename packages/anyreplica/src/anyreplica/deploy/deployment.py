"""A deployment: what it keeps of the running stack, what it refuses, what it prints, and what it removes at the end."""

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

import yaml

from anyreplica.deploy import image
from anyreplica.deploy.progress import DeployProgress
from anyreplica.deploy.running import RunningService, docker, newest_of_each_error, running_services, tasks, why
from anyreplica.deploy.wanted import (
    EDGE,
    MADE_SECRETS,
    PROTECTING,
    DeploymentRecord,
    Wanted,
    describe_changes,
    dropped_settings,
    make_secrets,
    recall_deployment,
    remember_deployment,
    remember_failure,
    repeat_tools,
    wanted,
)

_COUNTS = {"mcp": "REPLICAS", "worker": "WORKERS"}
"""The variable of stack.yml or an overlay that sets the number of tasks of each service."""

_SECRETS = {
    "request_state_keys": "REQUEST_STATE_KEYS_SECRET",
    "auth_token": "AUTH_TOKEN_SECRET",
    "api_keys": "API_KEYS_SECRET",
    "edge_pem": "EDGE_PEM_SECRET",
    "jobs_url": "JOBS_URL_SECRET",
    "metrics_token": "METRICS_TOKEN_SECRET",
}
"""For each file of a secret in a container: the variable of stack.yml or an overlay that names the secret."""

_COMPONENTS = "anyreplica.components"
"""Label of the service `mcp`; its value is MCP_COMPONENTS of the last deployment. Empty: the default of stack.yml."""

_AUTOSCALE = "anyreplica.autoscale"
_LABELS = {
    "mcp": {
        f"{_AUTOSCALE}.min": "AUTOSCALE_MIN",
        f"{_AUTOSCALE}.max": "AUTOSCALE_MAX",
        f"{_AUTOSCALE}.target": "AUTOSCALE_TARGET",
        f"{_AUTOSCALE}.down-seconds": "AUTOSCALE_DOWN_SECONDS",
    },
    "worker": {
        _AUTOSCALE: "AUTOSCALE_WORKERS",
        f"{_AUTOSCALE}.min": "AUTOSCALE_WORKERS_MIN",
        f"{_AUTOSCALE}.max": "AUTOSCALE_WORKERS_MAX",
    },
}
"""For each service: its labels for automatic scaling, and the variables of the overlays that set them."""


class DeploymentRefused(Exception):
    """The deployment was refused before it changed anything; the text names the reason."""


def deploy(stack: str, choose: Callable[[str, dict[str, RunningService]], str], *, dry_run: bool = False) -> bool:
    """Deploy stack.yml with its overlays, and print what happens.

    Args:
        stack: Name of the stack.
        choose: Returns the image for the stack and its running services, see `earlier_image` and `same_image`.
        dry_run: Print what would change, and change nothing.

    Returns:
        Whether the stack serves with the new settings. With `dry_run`: True.

    Raises:
        DeploymentRefused: The deployment would remove protection, there is no earlier image, or a variable is wrong.
        DockerCommandError: Docker failed.
    """
    seconds = _time_limit()
    before = running_services(stack)
    asked = choose(stack, before)
    overlays = _overlays(before)
    local = image.by_content(asked)
    variables = {"IMAGE": local or asked, "OVERLAYS": " ".join(overlays)}
    if EDGE in overlays:
        components = os.environ.get("MCP_COMPONENTS") or _components(before)
        variables["REPEAT_TOOLS"] = repeat_tools(local or asked, components)
    stays = before.keys() & wanted(overlays, **variables).services.keys()
    target = wanted(overlays, **variables, **_chosen_before({name: before[name] for name in stays}))
    _refuse_unused_secrets(target)
    _refuse_dropping(before, target)
    record = recall_deployment(stack)
    if dry_run:
        _show_changes(record, before, target)
        print(f"--dry-run: this would deploy {local or asked} as '{stack}'. Nothing has changed.")
        return True
    for line in make_secrets(target.external_secrets):
        print(line)
    _show_changes(record, before, target)
    present = tasks(stack)
    if local and (warning := image.copy_warning(local, present)):
        print(warning)
    print(f"Deploying {local or asked} as '{stack}' …", flush=True)
    known = {task.id for task in present}
    progress = DeployProgress(stack, before, known, target.services.keys())
    exit_code = _converge(stack, target, progress, local, seconds)
    found = progress.read()
    if exit_code is None:
        _print_late(stack, seconds, progress.failed, known)
    for name, failure in progress.failed.items():
        print(failure, file=sys.stderr)
        _explain(stack, found.get(name), known)
    if progress.failed or exit_code != 0:
        remember_failure(stack)
        return False
    after = {name: each for name, each in found.items() if name in target.services}
    _remove_dropped(stack, record, target)
    now = after["mcp"].image
    remember_deployment(stack, DeploymentRecord(target.text, now, _image_before(record, before, now)))
    _print_url(stack, after)
    return True


def same_image(stack: str, before: dict[str, RunningService]) -> str:
    """Return the image that the replicas have now.

    Raises:
        DeploymentRefused: The stack does not run.
    """
    if "mcp" not in before:
        raise DeploymentRefused(f"The stack '{stack}' does not run. STACK names another one.")
    return before["mcp"].image


def earlier_image(stack: str, before: dict[str, RunningService]) -> str:
    """Return the image that the replicas had before their present one, or before the last deployment if it failed.

    Raises:
        DeploymentRefused: The stack does not run, or its replicas have had no other image.
    """
    running = same_image(stack, before)
    record = recall_deployment(stack)
    rolled_back = "rollback" in before["mcp"].update[1]
    earlier = None if record is None else record.earlier_image
    if record is not None and not rolled_back and not image.same(record.image, running):
        earlier = record.image  # The last deployment has changed the image, but was not successful.
    elif rolled_back or (record is not None and record.failed):
        print(
            f"The last deployment failed, and the replicas have the image before it: {running}. Deploying it to all "
            "services. To go back further, repeat the rollback after that."
        )
        return running
    if earlier is None or earlier == running:
        raise DeploymentRefused(
            f"The replicas of '{stack}' have had no image other than {running} since `make deploy` keeps a "
            f"record. To deploy an image that you know: IMAGE={image.name_of(running)}:TAG make deploy"
        )
    print(f"Going back from {running} to {earlier}.")
    return earlier


def _time_limit() -> float:
    """Return the time limit for the deployment, in seconds."""
    value = os.environ.get("DEPLOY_SECONDS") or "600"
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise DeploymentRefused(f"DEPLOY_SECONDS={value}: not a number of seconds above 0. Nothing has changed.")
    return seconds


def _overlays(before: dict[str, RunningService]) -> list[str]:
    """Return the overlays in OVERLAYS; if it is unset, those of the running stack."""
    asked = os.environ.get("OVERLAYS")
    if asked is not None:
        return [os.path.normpath(file) for file in asked.split()]
    chosen = before["mcp"].overlays if "mcp" in before else None
    if chosen:
        print(f'Keeping OVERLAYS="{chosen}" of the running stack (to remove the overlays, set OVERLAYS= to empty).')
    return (chosen or "").split()


def _components(before: dict[str, RunningService]) -> str:
    """Return the components that the operator has chosen for the running stack. Empty: none."""
    return before["mcp"].labels.get(_COMPONENTS, "") if "mcp" in before else ""


def _chosen_before(before: dict[str, RunningService]) -> dict[str, str]:
    """Return what the operator has chosen for the running stack by variables that are unset now."""
    running = {
        _COUNTS[name]: str(service.replicas)
        for name, service in before.items()
        if name in _COUNTS and service.replicas is not None
    }
    for service in before.values():
        running |= {
            _SECRETS[file]: name
            for file, name in service.secrets.items()
            if file in _SECRETS and name != file and name not in MADE_SECRETS
        }
    for name, service in before.items():
        variables = _LABELS.get(name, {}) if service.labels.get(_AUTOSCALE) == "true" else {}
        running |= {variables[label]: value for label, value in service.labels.items() if label in variables}
    if components := _components(before):
        running["MCP_COMPONENTS"] = components
    chosen = {variable: value for variable, value in running.items() if variable not in os.environ}
    for variable, value in chosen.items():
        print(f"Keeping {variable}={value} of the running stack.")
    return chosen


def _refuse_unused_secrets(target: Wanted) -> None:
    """Raise `DeploymentRefused` if a variable names a secret that no file of the deployment uses."""
    for file, variable in _SECRETS.items():
        name = os.environ.get(variable)
        if name and name not in target.external_secrets:
            raise DeploymentRefused(
                f"{variable}={name}: no file of this deployment uses the variable. Nothing has changed.\n"
                f"Write this line below the secret in the file that has it:  name: ${{{variable}:-{file}}}"
            )


def _refuse_dropping(before: dict[str, RunningService], target: Wanted) -> None:
    """Raise `DeploymentRefused` if the deployment would remove protecting settings of a service without ALLOW_DROP."""
    allowed = set(re.split(r"[\s,]+", os.environ.get("ALLOW_DROP", "")))
    wanted_services = target.services
    dropped = {
        name: [each for each in dropped_settings(before[name], wanted_services[name]) if each not in allowed]
        for name in sorted(before.keys() & wanted_services.keys())
    }
    lost = {each for settings in dropped.values() for each in settings}
    if lost:
        names = " ".join(name for name in PROTECTING if name in lost)
        having = ", ".join(name for name, settings in dropped.items() if settings)
        ran_with = before["mcp"].overlays if "mcp" in before else None
        raise DeploymentRefused(
            f"Refused: this deployment would drop {names}, which the running stack has. Nothing has changed.\n"
            f"These services have the settings: {having}.\n"
            + (f'The running stack has OVERLAYS="{ran_with}".\n' if ran_with else "")
            + "To keep the settings, deploy with the overlay that has them.\n"
            + f'To drop the settings: ALLOW_DROP="{names}" make deploy'
        )


def _image_before(record: DeploymentRecord | None, before: dict[str, RunningService], present: str) -> str | None:
    """Return the image that the replicas had before their present one; None if they have had no other image."""
    images = []
    # Swarm had not completed an update in one of these two states. The replicas before it had the image of the record.
    if "mcp" in before and before["mcp"].update[1] not in ("updating", "paused"):
        images.append(before["mcp"].image)
    if record is not None:
        images += [record.image, record.earlier_image or present]
    return next((each for each in images if not image.same(each, present)), None)


def _show_changes(record: DeploymentRecord | None, before: dict[str, RunningService], target: Wanted) -> None:
    if record is None:
        return
    # `docker service scale` or the autoscaler may have changed the counts since the last deployment.
    counts = {name: service.replicas for name, service in before.items() if service.replicas is not None}
    changes = describe_changes(record.text, target.text, counts)
    print("\n".join(["Changes:", *(f"  {line}" for line in changes)]) if changes else "No changes in image or files.")


def _converge(stack: str, target: Wanted, progress: DeployProgress, local: str | None, seconds: float) -> int | None:
    """Deploy, print the progress, and return docker's exit code; None if docker still waits after the time limit."""
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
            progress.refresh()
            progress.show_life()
            time.sleep(0.5)
        if process.poll() is None:
            return None
    finally:
        process.kill()
        _, errors = process.communicate()
    progress.refresh()
    errors = _without_registry(errors, local)
    if errors:
        print(errors, file=sys.stderr)
    return process.returncode


def _print_late(stack: str, seconds: float, failed: Collection[str], known: set[str]) -> None:
    """Print that the time limit has passed, and the errors of the new tasks if no service has failed."""
    goes_on = "" if failed else " Swarm continues the deployment."
    print(f"The stack has not converged within {seconds:g} s (DEPLOY_SECONDS).{goes_on}", file=sys.stderr)
    for task in [] if failed else newest_of_each_error([task for task in tasks(stack) if task.id not in known]):
        print("\n".join(why(task)), file=sys.stderr)


def _without_registry(errors: str, local: str | None) -> str:
    """Return docker's output; if the image is local, remove the warning that no registry has it."""
    if local is not None:
        errors = re.sub(
            rf"image {re.escape(local)} could not be accessed on a registry.*?\n\n", "", errors, flags=re.DOTALL
        )
    return errors.strip()


def _explain(stack: str, service: RunningService | None, known: set[str]) -> None:
    """Print the different errors of a service's new tasks. The newest task with an error gives its details."""
    if service is None:
        return
    its = [task for task in tasks(stack) if task.service == service.found["ID"] and task.id not in known]
    for task in newest_of_each_error(its):
        print("\n".join(f"  {line}" for line in why(task)), file=sys.stderr)


def _remove_dropped(stack: str, record: DeploymentRecord | None, target: Wanted) -> None:
    """Remove the services that only overlays of the last deployment have.

    This comes last: while the update runs, and if Swarm rolls it back, the old replicas still need these services.
    """
    dropped = (yaml.safe_load(record.text)["services"].keys() if record else set()) - target.services.keys()
    for name in sorted(dropped & running_services(stack).keys()):
        docker("service", "rm", f"{stack}_{name}")
        print(f"Removed {name}: none of the files has it any more.")


def _print_url(stack: str, after: dict[str, RunningService]) -> None:
    host = urlsplit(docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")).hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    front = after.get("edge") or after["mcp"]
    if not front.published:
        print(f"'{stack}' serves; it publishes no port.")
        return
    url = f"http://{host}:{front.published[0]}/mcp"
    print(f"'{stack}' serves on {url}\nTo add it to a client:  claude mcp add --transport http {stack} {url}")
