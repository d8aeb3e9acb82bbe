"""The rounds: each scenario once, and right before it the floor, again and again."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.course import Course
from benchmarks.plan import CONNECTIONS, Plan
from benchmarks.process import ProcessError
from benchmarks.results import ScenarioFigures
from benchmarks.scenarios import FLOOR, Scenario


def steps(plan: Plan, scenarios: Sequence[Scenario]) -> int:
    """How often `measure_rounds` calls `step`."""
    return 1 + len(scenarios) * (1 + plan.rounds * len(CONNECTIONS))


def measure_rounds(plan: Plan, scenarios: Sequence[Scenario], step: Callable[[str], None]) -> list[ScenarioFigures]:
    """Measure the scenarios in turns, each in a process of its own that lives through all rounds.

    The floor is measured right before each of them: a shared machine's speed changes by half within seconds, and the
    figure that counts is a ratio. A scenario that fails is left out of what follows; the others go on.

    Args:
        step: called with what is done next, before each start and each measurement.

    Returns:
        The floor's figures, then the scenarios'.

    Raises:
        ProcessError: the floor failed, and with it every comparison.
    """
    with ExitStack() as stack:
        courses = []
        for scenario in (FLOOR, *scenarios):
            step(f"start: {scenario.name}")
            course = Course(plan, scenario, stack.enter_context(plan.serve(scenario.pack, scenario.key)))
            course.begin()
            courses.append(course)
        floor = courses[0]
        for number in range(1, plan.rounds + 1):
            for course in courses[1:]:
                for connections in CONNECTIONS:
                    step(f"round {number} of {plan.rounds}: {course.scenario.name}, {connections} in flight")
                    floor.measure(connections)
                    if floor.failure:
                        raise ProcessError(f"the floor: {floor.failure}")
                    course.measure(connections, floor.samples[connections][-1])
        for course in courses:
            course.end()
    return [course.figures() for course in courses]
