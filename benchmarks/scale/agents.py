"""From one replica to ten million agents: the model, and what it takes for granted."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.study.study import Assumption, Formula, Model

ASSUMED = (
    Assumption("agents", "agents", 10_000_000),
    Assumption("agent_calls", "calls of each agent (the published estimate has 60)", 60, "/min"),
    Assumption("reserve", "of each core left free, for peaks", 30, "%"),
    Assumption("tool_ms", "CPU time of the tool's own work for each call; an echo's is 0", 0, "ms"),
    Assumption("machine_cores", "cores of a machine", 32),
    Assumption("core_price", "price of a core, roughly that of a large cloud's general-purpose vCPU", 0.04, "$/h"),
    Assumption("gb_price", "price of a GB of memory there, roughly", 0.005, "$/h"),
    Assumption("published_rate", "calls of a server, as published elsewhere", 38.3, "/s"),
)
"""What nobody measures here. Prices are no quotes: on demand, and rounded."""

MEASURED = ("core_calls", "efficiency", "replica_mb")
"""What is, unless it is assumed as well."""

NAMES = (*(each.name for each in ASSUMED), *MEASURED)

_ONE_CORE = "1 / (100 / efficiency / core_calls + tool_ms / 1000)"

FORMULAS = (
    Formula("calls", "calls in all", "agents * agent_calls / 60", "/s"),
    Formula("one_core", "calls of a core, with the tool's work", _ONE_CORE, "/s"),
    Formula("cores", "cores", "calls / (one_core * (1 - reserve / 100))"),
    Formula("replicas", "replicas, one on each core", "ceil(cores)"),
    Formula("machines", "machines", "ceil(replicas / machine_cores)"),
    Formula("memory", "memory of all replicas", "replicas * replica_mb / 1000", "GB"),
    Formula("hour", "cost per hour", "machines * machine_cores * core_price + memory * gb_price", "$"),
    Formula("million", "cost per million calls", "hour / (calls * 3600) * 100000000", "¢"),
    Formula("published", "servers at the published rate, with nothing left free", "ceil(calls / published_rate)"),
)


@dataclass(frozen=True)
class Basis:
    """What the model starts from."""

    core_calls: float
    """Calls per second that a core has time for."""
    efficiency: float
    """Percent of what one replica answers alone that it answers among as many as were measured."""
    replica_mb: float


def model(basis: Basis, assumed: Mapping[str, float]) -> Model:
    """The model, with what is assumed in place of what is usual or measured."""
    measured = (
        Assumption("core_calls", "calls that a core has time for", basis.core_calls, "/s", measured=True),
        # What noise adds to 100 must not make a hundred thousand replicas cheaper.
        Assumption("efficiency", "of these, among other replicas", min(100, basis.efficiency), "%", measured=True),
        Assumption("replica_mb", "memory of a replica", basis.replica_mb, "MB", measured=True),
    )
    every = [
        replace(each, value=assumed[each.name], measured=False) if each.name in assumed else each
        for each in (*ASSUMED[:4], *measured, *ASSUMED[4:])
    ]
    return Model(every, list(FORMULAS))


def assumption(text: str) -> tuple[str, float]:
    """`NAME=VALUE` of the command line.

    Raises:
        argparse.ArgumentTypeError: no such name, or no value that makes sense.
    """
    name, _, value = text.partition("=")
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(NAMES)}")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    zero = name in ("tool_ms", "reserve", "core_price", "gb_price")
    most = 99.0 if name == "reserve" else 100.0 if name == "efficiency" else 1e15
    if not (0 <= number <= most and (number or zero)) or math.isnan(number):
        bounds = f"from 0 to {most:g}" if zero else f"above 0, to {most:g}"
        raise argparse.ArgumentTypeError(f"{value!r} is no number {bounds}: {name}=…")
    return name, number


def price(name: str, assumed: Mapping[str, float]) -> float:
    """An assumption of `ASSUMED`, by its name."""
    return assumed.get(name, next(each.value for each in ASSUMED if each.name == name))
