"""`verify` finds every change to the lines of an audit log."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.audit.call import Noted
from anyreplica.features.audit.line import Chain, Digests, Form, Shown
from tests.audit.calls import KEY, a_call, chained, said, verify

_calls = st.lists(
    st.builds(lambda name, caller: a_call({"x": name}, name=name, caller=caller), st.text(), st.text(max_size=9)),
    min_size=3,
    max_size=8,
)
_keys = st.sampled_from([None, KEY])


def found(lines: Sequence[bytes], key: bytes | None = None, *, part: bool = False) -> list[str]:
    """Return the problems of the lines."""
    return verify(lines, key, part=part).problems


def rechained(lines: Sequence[bytes], key: bytes | None = None) -> list[bytes]:
    """Return the lines with new hashes, as a person who can write the file could compute them."""
    bodies = [re.sub(r',"replica":.*', "", line.decode(), flags=re.DOTALL) for line in lines]
    return Chain("r1", "run1", Digests(key)).link(bodies)


@given(_calls, _keys)
def test_an_untouched_log_is_intact(calls: list[Noted], key: bytes | None) -> None:
    """An unchanged log is intact, whatever the callers sent."""
    lines = chained(calls, key)
    report = verify(lines, key)
    (run,) = report.runs
    assert report.intact
    assert (run.replica, run.run, run.begins, run.ended) == ("r1", "run1", "begun", True)
    assert (run.lines, run.seq, run.hash) == (len(calls) + 2, len(calls) + 1, said(lines[-1])["hash"])


@given(_calls, _keys, st.data())
def test_a_changed_byte_shows(calls: list[Noted], key: bytes | None, data: st.DataObject) -> None:
    """A changed byte shows, in any line and at any place."""
    lines = chained(calls, key)
    number = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[number][:-1])
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    lines[number] = bytes(line) + b"\n"
    report = verify(lines, key)
    # If the change makes the last line look like a line of another log, the last line counts as missing.
    assert report.problems or not report.runs[0].ended
    if number < len(lines) - 1:
        assert any(f"line {place}" in report.problems[0] for place in (number + 1, number + 2))


@given(_calls, _keys, st.data())
def test_a_removed_line_shows(calls: list[Noted], key: bytes | None, data: st.DataObject) -> None:
    """A removed line shows, except the last one: only the missing end of the run would show that."""
    lines = chained(calls, key)
    number = data.draw(st.integers(0, len(lines) - 2))
    del lines[number]
    (problem,) = found(lines, key)
    assert f"line {number + 1}" in problem
    assert "missing" in problem


@given(_calls, _keys, st.data())
def test_moved_lines_show(calls: list[Noted], key: bytes | None, data: st.DataObject) -> None:
    """Two lines that changed places show."""
    lines = chained(calls, key)
    one, other = data.draw(st.tuples(st.integers(0, len(lines) - 1), st.integers(0, len(lines) - 1)))
    lines[one], lines[other] = lines[other], lines[one]
    assert bool(found(lines, key)) == (one != other)


@given(_calls, _keys, st.data())
def test_a_repeated_line_shows(calls: list[Noted], key: bytes | None, data: st.DataObject) -> None:
    """A repeated line shows, wherever it is inserted."""
    lines = chained(calls, key)
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(number + 1, len(lines)))
    lines.insert(place, lines[number])
    (problem,) = found(lines, key)
    assert problem.startswith(f"line {place + 1} is a duplicate, or was inserted")


@given(_calls, _keys, st.data())
def test_a_cut_line_shows(calls: list[Noted], key: bytes | None, data: st.DataObject) -> None:
    """A shortened line shows if at least its first three bytes are left."""
    lines = chained(calls, key)
    number = data.draw(st.integers(1, len(lines) - 1))
    left = data.draw(st.integers(3, len(lines[number]) - 2))
    lines[number] = lines[number][:left] + b"\n"
    problems = found(lines, key)
    assert problems[0].startswith(f"line {number + 1} is")
    assert len(problems) == (1 if number == len(lines) - 1 else 2)


@given(_calls, st.data())
def test_with_a_key_a_replaced_line_shows_at_once(calls: list[Noted], data: st.DataObject) -> None:
    """With a key, a person without it cannot compute valid hashes; the first changed line shows."""
    lines = chained(calls, KEY)
    number = data.draw(st.integers(1, len(calls)))
    lines[number] = lines[number].replace(b'"outcome":"ok"', b'"outcome":"failed"')
    assert not found(rechained(lines, KEY), KEY)
    for other in (None, KEY[::-1]):
        forged = lines[:number] + rechained(lines, other)[number:]
        assert found(forged, KEY)[0] == f"line {number + 1} was changed, or written with another key"


def test_without_a_key_a_replaced_line_shows_at_the_next_line() -> None:
    """Without a key, a replaced line shows at the next line, unless all following hashes are replaced, too."""
    lines = chained([a_call(name=name) for name in "abcd"])
    forged = rechained([line.replace(b'"ok"', b'"failed"') if b'"b"' in line else line for line in lines])
    assert found(lines[:2] + forged[2:3] + lines[3:]) == [
        "line 4 does not follow the previous entry of its run: one of the two was replaced"
    ]
    assert found([*lines[:2], forged[2], *lines[2:]]) == [
        "line 4 is a duplicate, or was inserted (seq 2 of its run comes after seq 2)",
        "line 5 does not follow the previous entry of its run: one of the two was replaced",
    ]
    assert not found(forged)


def test_a_changed_line_causes_no_problem_at_later_lines() -> None:
    """A changed line causes no problems at the lines after it, unless its sequence number leaves a gap."""
    lines = chained([a_call()] * 4)
    changed = "line 3 was changed, or written with another key"
    for old, new in ((b'"ok"', b'"failed"'), (said(lines[2])["hash"].encode(), b"0" * 64)):
        assert found([*lines[:2], lines[2].replace(old, new), *lines[3:]]) == [changed]
    moved = lines[2].replace(b'"seq":2', b'"seq":9')
    gap = "the entry with seq 2 is missing before line 4, in the same run"
    assert found([*lines[:2], moved, *lines[3:]]) == [changed, gap]
    stolen = verify([*lines[:2], lines[2].replace(b'"run1"', b'"run2"'), *lines[3:]])
    assert stolen.problems == [changed, gap]
    assert [run.run for run in stolen.runs] == ["run1"]


@pytest.mark.parametrize(
    ("lines", "key", "problem"),
    [
        (chained([a_call()], KEY), None, "line 1 begins a run that was written with a key; pass the key"),
        (chained([a_call()]), KEY, "line 1 begins a run that was written without a key, so anyone can forge it"),
        (chained([a_call()], KEY[::-1]), KEY, "line 1 was changed, or written with another key"),
    ],
)
def test_a_wrong_key_is_reported(lines: list[bytes], key: bytes | None, problem: str) -> None:
    """A missing key, a wrong key, or a key for a log without one causes a problem at the first line."""
    assert found(lines, key)[0].startswith(problem)


def test_a_run_that_denies_its_key_is_reported() -> None:
    """A changed first line that claims a key does not skip the check of the other lines."""
    lines = chained([a_call()])
    forged = [lines[0].replace(b'"keyed":false', b'"keyed":true'), *lines[1:]]
    assert found(forged, KEY) == [f"line {number} was changed, or written with another key" for number in (1, 2, 3)]


@given(st.data())
def test_each_run_is_checked_separately(data: st.DataObject) -> None:
    """Each run is checked separately, also if lines are mixed with other logs and have the prefixes of Docker."""
    ahead = {
        "r1": "mcp.1.h2xk8d0@node-1.example    | ",
        "r2": "mcp-2  | ",
        "r3": "2026-09-22T12:00:00.123456789Z mcp.3.abc@node2    | ",
        "r4": "2026-09-22T12:00:00.123456789+00:00 stdout F ",
        "r5": "",
    }
    waiting = [[(name, line) for line in chained([a_call()] * 3, replica=name)] for name in ahead]
    mixed: list[bytes] = []
    while waiting:
        run = data.draw(st.sampled_from(waiting))
        name, line = run.pop(0)
        mixed += [ahead[name].encode() + line, b"ordinary {\n", b"\n", b'{"time":"now","level":"INFO"}\n']
        waiting = [run for run in waiting if run]
    report = verify(mixed)
    assert report.intact
    assert sorted((run.replica, run.lines, run.ended) for run in report.runs) == [(name, 5, True) for name in ahead]
    place = data.draw(st.sampled_from([at for at, line in enumerate(mixed) if b'"seq":2' in line]))
    del mixed[place]
    assert len(found(mixed)) == 1


def test_a_restart_shows_what_was_cut_off_before_it() -> None:
    """The first line of a new run shows that lines before it were cut off."""
    old = chained([a_call()] * 3)[:-1]  # the process was killed
    new = after(said(old[-1])["hash"])
    assert not found([*old, new])
    gone = "refers to an earlier entry that was changed or removed"
    assert found([*old[:-1], new]) == [f"line 4 {gone}"]
    assert found([*old, after(said(old[-2])["hash"])]) == [f"line 5 {gone}"]  # old[-1] was inserted


def test_a_new_file_continues_an_old_one() -> None:
    """Two files of one run are intact separately, and together in their order."""
    digests = Digests(None)
    form = Form(Shown(()), digests)
    chain = Chain("r1", "run1", digests)
    old = chain.link([form.event("begun", after="", keyed=False), form.call(a_call())])
    chain.advance(old)
    new = chain.link([form.event("continued", after="", keyed=False), form.call(a_call())])
    assert [run.begins for run in verify(old).runs] == ["begun"]
    assert [run.begins for run in verify(new).runs] == ["continued"]
    assert not found(old)
    assert not found(new)
    assert not found(old + new)
    assert found(old[:-1] + new) == ["the entry with seq 1 is missing before line 2, in the same run"]


def test_a_part_may_begin_anywhere() -> None:
    """With `part`, a log may begin within a run, as with `docker service logs --since`, but may not miss a line."""
    lines = chained([a_call()] * 5)
    assert found(lines[2:]) == ["line 1 is the first entry of its run here: the entries before seq 2 are missing"]
    assert not found(lines[2:], part=True)
    assert verify(lines[2:], part=True).runs[0].begins == ""
    assert found(lines[2:4] + lines[5:], part=True) == [
        "the entry with seq 4 is missing before line 3, in the same run"
    ]


@pytest.mark.parametrize(
    "ahead",
    [
        "2026-09-22 12:00:00,123 - anyreplica.access - INFO - [1f2e] ✗ 200 POST /mcp tools/call ",
        "2026-09-22 12:00:00,123 - anyreplica.access - INFO - [1f2e] ✗ 200 POST /mcp tools/call x | ",
        "mcp.1.abc@node1    | 2026-09-22 12:00:00,123 - INFO - called a | ",
        "mcp.1.abc@node1    | a b | ",
        '{"time":"2026-09-22T12:00:00","message":"',
        " ",
    ],
)
def test_an_entry_within_a_line_of_another_log_does_not_count(ahead: str) -> None:
    """An entry inside a line of another log, whole or cut, adds no entry and causes no problem."""
    lines = chained([a_call()])
    forged = [ahead.encode() + chained([a_call()], run="run2")[0], ahead.encode() + lines[1][:80] + b"\n"]
    report = verify([lines[0], *forged, *lines[1:]])
    assert report.intact
    assert len(report.runs) == 1


def test_an_entry_after_a_text_without_a_line_break_counts() -> None:
    """An entry after a text without a line break counts only if it is the next one of its run. No caller's text is."""
    lines = chained([a_call(name=name) for name in "abcd"])
    for number in range(1, len(lines)):
        glued = [*lines[:number], b"mcp.1.h2xk@node1 | Loading {" + lines[number], *lines[number + 1 :]]
        assert not found(glued)
        del glued[number]
        assert len(found(glued)) == (number < len(lines) - 1)
    for number in (0, 1, 3, 5):
        assert not found([*lines[:2], b"Loading " + lines[number], *lines[2:]])
    for forged in (lines[2].replace(b'"b"', b'"d"'), chained([a_call(name="d")] * 3, run="run1")[2]):
        assert not found([*lines[:2], b"Loading " + forged, *lines[2:]])


@pytest.mark.parametrize(
    "line",
    [
        b'{"audit":1,"hash":"%b"}' % (b"0" * 64),
        b'{"audit":1,"seq":-1,"replica":"r1","run":"run1","prev":"","time":"","hash":"%b"}' % (b"0" * 64),
        b'{"audit":1,"seq":1e99,"replica":"r1","run":"run1","hash":"%b"}' % (b"0" * 64),
        b'{"audit":1,"seq":1,"replica":[],"run":"run1","hash":"%b"}' % (b"0" * 64),
        b'{"audit":1,' + b'"a":[' * 5000 + b"]" * 5000 + b',"hash":"%b"}' % (b"0" * 64),
        b'{"audit":1,\xff\xfe,"hash":"%b"}' % (b"0" * 64),
        b'{"audit":1,',
        b'{"audit":1,"time":',
        b'{"au',
    ],
)
def test_a_malformed_entry_is_reported(line: bytes) -> None:
    """A malformed entry causes a problem that names its line, and no exception."""
    lines = chained([a_call()])
    (problem, *_) = found([*lines[:1], line, *lines[1:]])
    assert problem.startswith("line 2 ")


@given(st.lists(st.binary(max_size=60) | st.binary(max_size=60).map(lambda end: b'{"audit":1,' + end)))
def test_any_bytes_can_be_read(lines: list[bytes]) -> None:
    """Any bytes can be checked without an exception, for example those of a damaged disk."""
    verify(lines)
    verify(lines, KEY, part=True)


def test_a_moved_line_is_reported_differently_from_a_repeated_one() -> None:
    """A moved line is reported differently from a repeated one, because its old place is empty."""
    lines = chained([a_call(name=name) for name in "abcd"])
    assert found([*lines[:2], *lines[3:5], lines[2], *lines[5:]]) == [
        "the entry with seq 2 is missing before line 3, in the same run",
        "line 5 is in the wrong place (seq 2 of its run comes after seq 4)",
    ]


def test_an_expected_hash_shows_a_cut_end() -> None:
    """An expected hash shows that the end of the log was cut off, although the rest is intact."""
    lines = chained([a_call()] * 3)[:-1]
    recorded = said(lines[-1])["hash"]
    assert verify(lines, expected=[recorded]).intact
    assert verify([*lines, *chained([a_call()], run="run2")], expected=[recorded]).intact
    assert found(lines[:-1]) == []
    assert verify(lines[:-1], expected=[recorded]).problems == [
        f"no entry has the hash {recorded}: this entry or an earlier one was changed or removed"
    ]


def test_an_expected_hash_shows_a_rewritten_log() -> None:
    """An expected hash shows that a log was written again, even without a key. A changed line does not have it."""
    lines = chained([a_call()] * 3)
    recorded = said(lines[2])["hash"]
    forged = rechained([line.replace(b'"echo"', b'"other"') for line in lines])
    assert verify(forged).intact
    assert not verify(forged, expected=[recorded]).intact
    lines[2] = lines[2].replace(b'"ok"', b'"failed"')
    assert len(verify(lines, expected=[recorded]).problems) == 2


def test_an_empty_log_is_not_intact() -> None:
    """An empty log is not intact, because all of its lines are missing."""
    assert not verify([]).intact
    assert not verify([b"Ready\n"]).intact


def after(last_hash: str) -> bytes:
    """Return the first line of a run that follows another run."""
    digests = Digests(None)
    (line,) = Chain("r1", "run2", digests).link([Form(Shown(()), digests).event("begun", after=last_hash, keyed=False)])
    return line
