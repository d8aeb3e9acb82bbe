"""The progress output of a deployment: one line for each change."""

import time

from anyreplica.deploy.docker import DockerCommandError
from anyreplica.deploy.running import RunningService, services
from anyreplica.deploy.tasks import SwarmTask, tasks


class DeployProgress:
    """A monitor that compares a stack with its state before the deployment and prints each change.

    Args:
        stack: Name of the stack.
        before: The services before the deployment.
        known: Ids of the tasks that existed before the deployment.
    """

    def __init__(self, stack: str, before: dict[str, RunningService], known: set[str]) -> None:
        self._stack = stack
        self._before = before
        self._known = known
        self._said: dict[str, str] = {}
        self._began = time.monotonic()

    def look(self) -> None:
        """Read the state of the stack once and print the changes since the last time."""
        try:
            found, all_tasks = services(self._stack), tasks(self._stack)
        except DockerCommandError:  # The next call tries again.
            return
        for name, service in found.items():
            line = self._line(name, service, [task for task in all_tasks if task.service == service.found["ID"]])
            if line and self._said.get(name) != line:
                self._said[name] = line
                print(f"  {time.monotonic() - self._began:4.0f} s  {line}", flush=True)

    def _line(self, name: str, service: RunningService, its: list[SwarmTask]) -> str:
        new = [task for task in its if task.id not in self._known]
        began, state = service.update
        if state.startswith("rollback") and name in self._before and self._before[name].update[0] != began:
            return f"{name}: Swarm rolls the update back"
        if not new:
            return ""
        nodes = sum(task.wanted == "running" for task in its)
        # During an update, a replicated service has one running task more than `service.replicas` for a while.
        wanted = nodes if service.replicas is None else service.replicas
        running = sum(task.state == task.wanted == "running" for task in new)
        failed = sum(task.state in ("failed", "rejected") for task in new)
        line = f"{name}: {running} of {wanted} new {'task' if wanted == 1 else 'tasks'} running"
        if failed:
            return f"{line}, {failed} failed"
        if running == wanted and state == "updating":
            return f"{line}; Swarm watches {'it' if wanted == 1 else 'them'} for {service.monitor_seconds:g} s"
        return line
