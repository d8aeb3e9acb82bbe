"""The plan of each process: its share of the load that the command line describes."""

from dataclasses import replace
from typing import Any

from anyreplica.load.message import LoadTarget, Writer
from anyreplica.load.options import Options
from anyreplica.load.run import Load, Ramp
from anyreplica.load.scenario import Conversation, Echo, Mix, Scenario, Single


def load_of_part(options: Options, addresses: list[str], part: int) -> Load:
    """Return the load of the process with number `part` (from 0) of `options.processes` processes.

    Raises:
        ValueError: The description of the mix is wrong.
    """
    target = LoadTarget.of(options.url)
    sign = options.signer.lines(options.url) if options.signer else None
    count = options.processes
    ramp = options.ramp
    return Load(
        target=target,
        addresses=addresses,
        scenario=scenario_of(options.what, Writer(target, options.headers, sign)),
        families=options.families,
        clients=max(1, _share(options.concurrent, part, count)),
        requests=None if options.requests is None else _share(options.requests, part, count),
        seconds=options.seconds,
        ramp=None if ramp is None else Ramp(ramp.first / count, ramp.last / count, ramp.seconds),
        policy=options.policy,
        patience=options.patience,
    )


def load_of_warm_up(load: Load, seconds: float) -> Load:
    """Return the same load with a time limit in seconds, for the warm-up before the measurement."""
    return replace(load, requests=None, seconds=seconds)


def scenario_of(what: dict[str, Any], writer: Writer) -> Scenario:
    """Return the scenario that clients perform.

    Args:
        what: The description, in the form of `Options.what`.
        writer: Writes the requests.

    Raises:
        ValueError: The description is wrong.
    """
    unknown = what.keys() - {"tool", "method", "args", "mix", "session", "sdk", "weight"}
    if unknown:
        raise ValueError(
            f"An entry of --mix can't have {', '.join(sorted(unknown))}; "
            "the allowed fields are weight, tool or method, args, and session."
        )
    if "mix" in what:
        return Mix([(_weight(entry), scenario_of(entry, writer)) for entry in what["mix"]])
    if what.get("session"):
        return Conversation(writer)
    if "method" in what:
        return Single(writer, str(what["method"]), what.get("args", {}))
    if "tool" in what:
        return Single(writer, "tools/call", {"name": str(what["tool"]), "arguments": what.get("args", {})})
    return Echo(writer)


def _weight(entry: dict[str, Any]) -> float:
    weight = entry.get("weight", 1)
    if not isinstance(weight, int | float) or weight < 0:
        raise ValueError(f"The weight {weight!r} of an entry of --mix is not a number of 0 or more.")
    return float(weight)


def _share(total: int, part: int, count: int) -> int:
    """Return the part of `total` for process `part`. The parts of all `count` processes add up to `total`."""
    return total // count + (part < total % count)
