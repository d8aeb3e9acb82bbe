"""A dictionary whose entries expire does not keep what was removed from it."""

from anyreplica.shared.expiring import Expiring


def test_removed_entries_leave_nothing() -> None:
    """Entries with a long lifetime that are removed at once do not fill the memory."""
    ended = list[int]()
    entries: Expiring[int] = Expiring(ended.append)
    entries.add("stays", -1, 1000)
    for number in range(10_000):
        entries.add(f"short {number % 7}", number, 86400)
        entries.keep(f"short {number % 7}", 86400 - number % 50)
        entries.remove(f"short {number % 7}")
    assert len(entries._heap) <= 102 + 2
    assert ended == list(range(10_000))
    assert (len(entries), entries.get("stays")) == (1, -1)


def test_an_entry_expires_after_others_were_removed() -> None:
    """An entry still expires at its time after many others were removed."""
    ended = list[int]()
    entries: Expiring[int] = Expiring(ended.append)
    entries.add("soon", 1, -1)
    for number in range(500):
        entries.add(f"{number}", 2, 1000)
        entries.remove(f"{number}")
    entries.expire()
    assert ended.count(1) == 1
    assert entries.get("soon") is None
