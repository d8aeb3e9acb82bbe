"""Pages of metrics that a broken or hostile replica could write."""

from hypothesis import strategies as st

from tests.damage.dice import Dice
from tests.damage.messages import mangled

_NUMBERS = ["0", "1", "90", "NaN", "+Inf", "-Inf", "-1", "1e308", "1e-320", "1e15", "0x10", "", "many", "9" * 400]
_NAMES = ["mcp_requests_in_flight", "mcp_requests_in_flight_max", "mcp_job_queue_depth", "mcp_jobs_running"]
_NAMES += ["mcp_job_queue_age_seconds", "mcp_replica_draining", "process_cpu_seconds_total", "mcp_requests_total"]
_NAMES += ["process_start_time_seconds", "mcp_event_loop_lag_seconds_bucket", "mcp_request_duration_seconds_bucket"]


def _label(dice: Dice) -> str:
    backslashes = dice.one_of(["\\", '\\"']) * dice.below(2000)
    method = dice.one_of(["tools/call", "tools/list", ""])
    return dice.one_of([f'le="{dice.one_of(_NUMBERS)}"', f'method="{method}"', f'tool="{backslashes}"', dice.text(20)])


def _line(dice: Dice) -> str:
    labels = "{" + ",".join(_label(dice) for _ in range(dice.below(6))) + "}" if dice.once_in(2) else ""
    return dice.one_of(_NAMES) + labels + dice.one_of([" ", "", "\t", "  "]) + dice.one_of(_NUMBERS)


@st.composite
def damaged_pages(draw: st.DrawFn) -> bytes:
    """Return a page with wrong, missing and repeated lines, with bytes that were changed."""
    dice = Dice.drawn(draw)
    page = "\n".join(_line(dice) for _ in range(dice.below(41))).encode(errors="replace")
    page = b"\n".join([page] * (1 + dice.below(5)))
    for _ in range(dice.below(5)):
        page = mangled(dice, page)
    return page
