"""The progress of a deployment: one line for each change, and the services that failed."""

import contextlib
import time
from collections.abc import Collection

from anyreplica.deploy.running import DockerCommandError, RunningService, SwarmTask, running_services, tasks

_SILENT_SECONDS = 10
"""Time without a new line after which a line says that the deployment goes on, in seconds."""


class DeployProgress:
    """A monitor that compares a stack with its state before the deployment and prints each change.

    Args:
        stack: Name of the stack.
        before: The services before the deployment.
        known: Ids of the tasks that existed before the deployment.
        deployed: Names of the services that the deployment creates or updates.
    """

    def __init__(
        self, stack: str, before: dict[str, RunningService], known: set[str], deployed: Collection[str]
    ) -> None:
        self._stack = stack
        self._deployed = deployed
        self._before = before
        self._known = known
        self._printed: dict[str, str] = {}
        self._failed_updates: dict[str, str] = {}
        self._failed_starts: dict[str, str] = {}
        self._waiting: dict[str, bool] = {}
        """For each service with new tasks: whether some of them do not run yet."""
        self._started = self._printed_at = time.monotonic()

    @property
    def failed(self) -> dict[str, str]:
        """The deployed services that failed, each with a sentence about the failure.

        A service has failed if Swarm paused its update or rolled it back, or if none of its tasks runs and new tasks
        have failed. A failed update stays failed: a later change of the service, for example by the autoscaler, removes
        the state of the update.
        """
        return self._failed_starts | self._failed_updates

    def refresh(self) -> None:
        """Read the state of the stack once and print the changes since the last time."""
        with contextlib.suppress(DockerCommandError):  # The next call tries again.
            self.read()

    def show_life(self) -> None:
        """If no line was printed for `_SILENT_SECONDS`, print what the deployment still waits for."""
        if time.monotonic() - self._printed_at < _SILENT_SECONDS:
            return
        late = [name for name, waits in self._waiting.items() if waits]
        if late:
            self._print(f"still waiting for the new tasks of {', '.join(late)}")
        else:
            self._print("docker still watches the new tasks" if self._waiting else "no new task yet")

    def read(self) -> dict[str, RunningService]:
        """Read the state of the stack, print the changes since the last time, and return the services.

        Raises:
            DockerCommandError: Docker can't reach a manager of a Swarm.
        """
        found, all_tasks = running_services(self._stack), tasks(self._stack)
        self._failed_starts = {}
        for name, service in found.items():
            its = [task for task in all_tasks if task.service == service.found["ID"]]
            self._note_failure(name, service, its)
            line = self._line(name, service, its)
            if line and self._printed.get(name) != line:
                self._printed[name] = line
                self._print(line)
        return found

    def _print(self, line: str) -> None:
        self._printed_at = time.monotonic()
        print(f"  {self._printed_at - self._started:4.0f} s  {line}", flush=True)

    def _note_failure(self, name: str, service: RunningService, its: list[SwarmTask]) -> None:
        failed = self._failed_tasks(its)
        if self._has_failed_update(name, service):
            state = service.update[1]
            self._failed_updates[name] = f"The update of {name} failed, and Swarm {service.failure} ({state})."
        elif failed and name in self._deployed and not any(task.state in ("running", "complete") for task in its):
            count = "1 new task has" if failed == 1 else f"{failed} new tasks have"
            self._failed_starts[name] = f"No task of {name} runs: {count} failed. Swarm starts further tasks."

    def _has_failed_update(self, name: str, service: RunningService) -> bool:
        """Return whether an update failed that belongs to the deployment."""
        before = self._before.get(name)
        is_new = before is None or before.update[0] != service.update[0]
        return bool(service.failure) and is_new and name in self._deployed

    def _failed_tasks(self, its: list[SwarmTask]) -> int:
        return sum(task.id not in self._known and task.state in ("failed", "rejected") for task in its)

    def _line(self, name: str, service: RunningService, its: list[SwarmTask]) -> str:
        if self._has_failed_update(name, service):
            return f"{name}: the update failed, and Swarm {service.failure}"
        new = [task for task in its if task.id not in self._known]
        if not new:
            return ""
        nodes = sum(task.wanted == "running" for task in its)
        # During an update, a replicated service has one running task more than `service.replicas` for a while.
        wanted = nodes if service.replicas is None else service.replicas
        running = sum(task.state == task.wanted == "running" for task in new)
        self._waiting[name] = running < wanted
        line = f"{name}: {running} of {wanted} new {'task' if wanted == 1 else 'tasks'} running"
        if failed := self._failed_tasks(its):
            return f"{line}, {failed} failed"
        # If there is no update, as in a first deployment, it is the docker command that watches the tasks.
        watcher = {"": "docker", "updating": "Swarm"}.get(service.update[1])
        if running == wanted and watcher:
            return f"{line}; {watcher} watches {'it' if wanted == 1 else 'them'} for {service.monitor_seconds:g} s"
        return line
