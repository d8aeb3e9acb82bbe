"""The figures of a service: how busy its replicas are, as multiples of the targets in its policy."""

from collections.abc import Sequence
from statistics import median_high

from anyreplica.autoscale.policy import Policy
from anyreplica.autoscale.proposal import Figure
from anyreplica.autoscale.readings import History, Reading
from anyreplica.autoscale.service import Service


def of_replicas(policy: Policy, service: Service, histories: Sequence[History | None]) -> list[Figure]:
    """Return the figures of a service of replicas. `histories` has None for each replica that gives no figures."""

    def figure(name: str, measure: str, full: float) -> Figure:
        values = [None if each is None else getattr(each, measure)() for each in histories]
        return Figure(name, [None if value is None else value / full for value in values])

    found = [
        figure("calls in flight", "in_flight", policy.target),
        figure("CPU", "cpu", service.cores * policy.target),
    ]
    if policy.lag_seconds is not None:
        found.append(figure("event-loop lag", "lag", policy.lag_seconds))
    if policy.p99_seconds is not None:
        found.append(figure("99th percentile of calls", "p99", policy.p99_seconds))
    return found


def of_workers(policy: Policy, service: Service, workers: int, readings: Sequence[Reading]) -> list[Figure]:
    """Return the figures of a service of workers.

    The age of the oldest job never asks for more workers than there are jobs. It only falls some time after a worker
    was added, and would ask for more and more until then.

    Args:
        workers: desired number of workers.
        readings: what the replicas say about the queue. All of them see the same queue, so the middle value counts,
            and one replica with a wrong value changes nothing.
    """
    jobs = [each.jobs for each in readings if each.jobs is not None]
    ages = [each.age for each in readings if each.age is not None]
    workers = max(1, workers)
    full = workers * service.concurrency * policy.target
    by_length = median_high(jobs) / full if jobs else None
    by_age = min(median_high(ages) / policy.age_seconds, median_high(jobs) / workers) if ages and jobs else None
    return [Figure("jobs", [by_length] * workers), Figure("age of the oldest job", [by_age] * workers)]
