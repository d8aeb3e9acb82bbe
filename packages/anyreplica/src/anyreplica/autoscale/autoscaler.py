"""The autoscaler: it checks all services that want to be scaled, and sets their numbers of replicas."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from anyreplica.autoscale.metrics import AutoscaleMetrics
from anyreplica.autoscale.page import Page
from anyreplica.autoscale.policy import Decision, Figure, LabelError, Policy, Scaler, policy_of
from anyreplica.autoscale.readings import SECONDS, History, figures_of_replicas, figures_of_workers
from anyreplica.autoscale.service import Changed, DescriptionError, DockerApi, DockerError, ReplicaTask, Service

logger = logging.getLogger(__name__)

Read = Callable[[str, int, str], Awaitable[Page]]
"""Returns the metrics at an address, a port and a path. Raises OSError if there are none."""

_AT_ONCE = 20
"""Number of replicas of one service that are asked at the same time."""
_ASK_SECONDS = 5.0
"""Time limit for the answers of all replicas of a service, in seconds."""
_SERVICE_SECONDS = 8.0
"""Time limit for a check of one service, in seconds. With the pause between two checks, it is shorter than the time for
which the readings of the other services count."""
_MOST_TEXT = 500
"""The log shows so many characters of an error."""


@dataclass
class _Watched:
    """What the autoscaler knows of a service."""

    name: str
    scaler: Scaler = field(default_factory=Scaler)
    histories: dict[str, History] = field(default_factory=dict)
    """The readings of each replica, by its task."""
    replicas: int | None = None
    """The number of replicas at the last check."""
    asked: int | None = None
    """The number that this autoscaler has asked Docker to set. Docker may do so and give no answer in time."""
    topic: str = ""
    """The topic of the last sentence about the service. The log repeats no topic."""
    silence: str = ""
    """The error of one replica, if no replica gives figures. Empty otherwise."""
    unanswered: set[str] = field(default_factory=set)
    """The tasks that gave no answer when they were asked the last time."""
    silent: set[str] = field(default_factory=set)
    """The tasks that give no figures while others do. The log has named their errors."""


class Autoscaler:
    """Scales the services of a Swarm.

    Args:
        read: reads the metrics of a replica.
        dry_run: only say what would be changed.
        ask_seconds: time limit for the answers of all replicas of a service, in seconds.
        service_seconds: time limit for the check of one service, in seconds.
    """

    def __init__(
        self,
        docker: DockerApi,
        read: Read,
        metrics: AutoscaleMetrics,
        *,
        dry_run: bool = False,
        ask_seconds: float = _ASK_SECONDS,
        service_seconds: float = _SERVICE_SECONDS,
    ) -> None:
        self._docker = docker
        self._read = read
        self._metrics = metrics
        self._dry_run = dry_run
        self._ask_seconds = ask_seconds
        self._service_seconds = service_seconds
        self._watched: dict[str, _Watched] = {}
        self._logged = ""
        """The last sentence about all services. The log does not repeat it."""
        self._faults: set[str] = set()
        """The descriptions that were no services at the last check. The log names each only when it is new."""

    async def check(self, now: float) -> None:
        """Check all services once, and change those that need it.

        An error of a service is logged, and ends only the check of this service. The services are checked at the same
        time, so none waits for another.

        Args:
            now: time of a monotonic clock, in seconds.
        """
        try:
            services, faults = await self._docker.services()
        except DockerError as error:
            self._log_new_for_all(f"Nothing is scaled: {error}")
            self._metrics.looks.labels("failed").inc()
            return
        for fault in faults:
            if fault not in self._faults:
                logger.warning("%s", fault)
        self._faults = set(faults)
        wanted = {each.identity: each for each in services if _wants(each)}
        for identity in self._watched.keys() - wanted.keys():
            self._metrics.forget(self._watched.pop(identity).name)
        if not wanted:
            self._log_new_for_all("No service has the label anyreplica.autoscale=true.")
        else:
            self._logged = ""
        """The last sentence about all services. The log does not repeat it."""
        outcomes = await asyncio.gather(*(self._scaled(each, services, now) for each in wanted.values()))
        self._metrics.looks.labels("ok" if all(outcomes) and not faults else "failed").inc()

    async def _scaled(self, service: Service, services: list[Service], now: float) -> bool:
        """Look at one service. Return whether there was no error."""
        watched = self._watched.setdefault(service.identity, _Watched(service.name))
        try:
            async with asyncio.timeout(self._service_seconds):
                await self._check_service(service, watched, services, now)
        except TimeoutError:
            self._fail(service, watched, f"the check of it took more than {self._service_seconds:g} s")
        except (LabelError, DockerError, DescriptionError) as error:
            self._fail(service, watched, str(error))
        except Exception as error:  # a fault that one service meets must not end the checks of the others
            if self._fail(service, watched, f"fault of the autoscaler: {error!r}"):
                logger.exception("The check of %s has failed", service.name)
        else:
            return True
        return False

    def _fail(self, service: Service, watched: _Watched, error: str) -> bool:
        """Count and log an error. Return whether it is a new one."""
        self._metrics.failures.labels(service.name).inc()
        text = f"not scaled: {_one_line(error)}"
        is_new = text != watched.topic
        self._log_new(service, watched, text, level=logging.WARNING)
        return is_new

    async def _check_service(self, service: Service, watched: _Watched, services: list[Service], now: float) -> None:
        policy = policy_of(service.labels)
        assert policy is not None  # noqa: S101  # `_wants` has checked it
        if service.replicas is None:
            raise LabelError("it has no number of replicas (mode: global); remove the label anyreplica.autoscale")
        tasks = await self._docker.tasks(service)
        self._note_replicas(policy, service, watched, now)
        found = await self._figures(policy, service, tasks, watched, services, now)
        self._show(policy, service, tasks, found)
        if service.changing:
            watched.scaler.note(now, service.replicas)
            self._hold(service, watched, f"stays at {service.replicas} replicas: {service.changing}")
            return
        decision = watched.scaler.decide(policy, now, service.replicas, found)
        if watched.silence:
            text = f"no replica gives figures, so the number stays: {watched.silence}"
            self._log_new(service, watched, text, topic="silence", level=logging.WARNING)
        elif watched.topic == "silence":
            self._log_new(service, watched, "replicas give figures again")
        self._metrics.wanted.labels(service.name).set(decision.replicas)
        crowded = [task for task in tasks if task.has_no_room]
        if crowded and decision.replicas >= service.replicas:
            text = f"stays at {service.replicas} replicas: no node has room for {len(crowded)} of them"
            self._hold(service, watched, f"{text} ({crowded[0].problem})", level=logging.WARNING)
            return
        self._metrics.held.labels(service.name).set(0)
        await self._set(service, watched, decision)

    def _note_replicas(self, policy: Policy, service: Service, watched: _Watched, now: float) -> None:
        """Respect a number that this autoscaler has not set: the first one, and one that somebody else sets later."""
        assert service.replicas is not None  # noqa: S101  # checked before
        if service.replicas not in (watched.replicas, watched.asked):
            watched.scaler.note(now, service.replicas)
            if watched.replicas is not None:
                text = f"somebody else has changed {watched.replicas} replicas to {service.replicas}"
                stay = f"they stay for {policy.down_seconds:g} s, or until the load asks for more"
                self._log_new(service, watched, f"{text}; {stay}")
        watched.replicas, watched.asked = service.replicas, None

    async def _figures(
        self,
        policy: Policy,
        service: Service,
        tasks: list[ReplicaTask],
        watched: _Watched,
        services: list[Service],
        now: float,
    ) -> list[Figure]:
        """Ask the replicas, and return the figures of the service."""
        if not policy.queue_of:
            await self._ask(service, tasks, watched, now)
            return figures_of_replicas(policy, service, [_current(watched, task, now) for task in tasks])
        names = (policy.queue_of, f"{service.stack}_{policy.queue_of}")
        source = next((each for each in services if each.name in names and each.stack == service.stack), None)
        if source is None:
            raise LabelError(f"anyreplica.autoscale.queue-of={policy.queue_of!r}: the stack has no such service")
        asked = await self._docker.tasks(source)
        await self._ask(source, asked, watched, now)
        found = [history.newest for task in asked if (history := _current(watched, task, now)) is not None]
        return figures_of_workers(policy, service, len(tasks), [each for each in found if each is not None])

    async def _ask(self, service: Service, tasks: list[ReplicaTask], watched: _Watched, now: float) -> None:
        """Get a reading of each replica that runs."""
        running = {task.identity: task for task in tasks if task.runs}
        errors: dict[str, str] = {}
        watched.histories = {key: history for key, history in watched.histories.items() if key in running}
        places = asyncio.Semaphore(_AT_ONCE)

        async def ask(task: ReplicaTask) -> None:
            async with places:
                watched.unanswered.add(task.identity)
                for address in task.addresses:
                    try:
                        found = (await self._read(address, service.port, service.metrics_path)).reading(now)
                    except OSError as error:
                        errors[task.identity] = _one_line(str(error))
                        continue
                    except ValueError as error:
                        errors[task.identity] = _one_line(f"{address}:{service.port} gives no metrics: {error}")
                        continue
                    errors.pop(task.identity, None)
                    watched.unanswered.discard(task.identity)
                    if found.is_draining:
                        watched.histories.pop(task.identity, None)
                    else:
                        watched.histories.setdefault(task.identity, History()).add(found)
                    return

        # Those that gave no answer the last time come last, so they take no time from the others.
        watched.unanswered &= running.keys()
        asked = sorted(running.values(), key=lambda task: task.identity in watched.unanswered)
        try:
            async with asyncio.timeout(self._ask_seconds):
                await asyncio.gather(*(ask(task) for task in asked))
        except TimeoutError:
            late = f"the replicas did not all answer within {self._ask_seconds:g} s"
            errors = {key: late for key in running if _current(watched, running[key], now) is None} | errors
        answers = any(_current(watched, task, now) for task in running.values())
        watched.silence = "" if answers or not errors else next(iter(errors.values()))
        silent = {key for key in errors if answers and _current(watched, running[key], now) is None}
        for key in silent - watched.silent:
            logger.warning("%s: a replica gives no figures: %s", service.name, errors[key])
        watched.silent = silent

    def _show(self, policy: Policy, service: Service, tasks: list[ReplicaTask], found: list[Figure]) -> None:
        """Show in the metrics what was seen."""
        name, show = service.name, self._metrics
        show.replicas.labels(name).set(service.replicas or 0)
        show.minimum.labels(name).set(policy.minimum)
        show.maximum.labels(name).set(policy.maximum)
        show.no_room.labels(name).set(sum(task.has_no_room for task in tasks))
        show.silent.labels(name).set(max((len(each.loads) - len(each.known) for each in found), default=0))
        for each in found:
            if each.known:
                show.load.labels(name, each.name).set(sum(each.known) / len(each.known))

    async def _set(self, service: Service, watched: _Watched, decision: Decision) -> None:
        """Set the number of a decision, if it is a new one."""
        before, after = service.replicas, decision.replicas
        assert before is not None  # noqa: S101  # checked before
        if after == before:
            stays = f"stays at {before} replicas: {decision.why}"
            if self._dry_run and not watched.silence:
                self._log_new(service, watched, stays, topic="stays")
            logger.debug("%s: %s", service.name, stays)
            return
        change = f"{before} -> {after} replicas: {decision.why}"
        if self._dry_run:
            self._log_new(service, watched, f"would change: {change}", topic=f"{before} -> {after}")
            return
        watched.asked = after
        try:
            await self._docker.scale(service, after)
        except Changed:
            self._log_new(service, watched, "somebody else changes it at this moment; the next check decides again")
            return
        watched.replicas = after
        self._metrics.replicas.labels(service.name).set(after)
        self._metrics.changes.labels(service.name, "up" if after > before else "down").inc()
        self._log_new(service, watched, change)

    def _hold(self, service: Service, watched: _Watched, text: str, level: int = logging.INFO) -> None:
        self._metrics.held.labels(service.name).set(1)
        self._log_new(service, watched, text, level=level)

    def _log_new(
        self, service: Service, watched: _Watched, text: str, *, topic: str = "", level: int = logging.INFO
    ) -> None:
        """Log a sentence about a service, unless the last one had the same topic. The topic is the text by default."""
        topic = topic or text
        if topic != watched.topic:
            logger.log(level, "%s: %s", service.name, text)
        watched.topic = topic

    def _log_new_for_all(self, text: str) -> None:
        if text != self._logged:
            logger.warning("%s", text)
        self._logged = text


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MOST_TEXT]


def _wants(service: Service) -> bool:
    """Return whether a service wants to be scaled. One with a wrong label does: its log line names the label."""
    try:
        return policy_of(service.labels) is not None
    except LabelError:
        return True


def _current(watched: _Watched, task: ReplicaTask, now: float) -> History | None:
    """Return the readings of a replica that has answered in the last seconds.

    One lost answer says nothing. If it did, the replica would count as fully loaded, and this number would stay for
    five minutes.
    """
    history = watched.histories.get(task.identity)
    if history is None or history.newest is None or now - history.newest.at > SECONDS:
        return None
    return history
