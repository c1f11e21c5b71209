from pathlib import Path

from rackless.run.ledger import Ledger, LedgerEntry


def test_what_is_owned_is_read_back_in_order_by_a_new_process(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "lab.ledger")
    ledger.own("folder", "/a")
    ledger.own("netns", "/b", by="holder")
    ledger.own("folder", "/a")
    assert Ledger(ledger.path).entries() == [LedgerEntry("folder", "/a"), LedgerEntry("netns", "/b", {"by": "holder"})]


def test_what_was_struck_is_no_longer_owned_until_it_is_made_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "lab.ledger")
    ledger.own("folder", "/a")
    ledger.strike(LedgerEntry("folder", "/a"))
    assert ledger.entries() == []
    ledger.own("folder", "/a")
    assert ledger.entries() == [LedgerEntry("folder", "/a")]


def test_a_line_cut_off_by_a_crash_is_ignored_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "lab.ledger")
    ledger.own("folder", "/a")
    with ledger.path.open("ab") as file:
        file.write(b'{"version": 1, "kind": "net')
    ledger.own("folder", "/b")
    assert [entry.id for entry in ledger.entries()] == ["/a", "/b"]
