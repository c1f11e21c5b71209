"""What a BMC has written down, as a person is shown it."""

from __future__ import annotations

from pathlib import Path

from rackless.bmc.core.audit import Audit, AuditEntry
from rackless.bmc.core.log import Log, LogKind
from rackless.events import Bus
from rackless.labd.bmc_records import MOST_LINES, read_audit, read_log


def entry(action: str, server: str | None, bmc: str = "192.0.2.20", *, ok: bool = True) -> AuditEntry:
    user = "admin" if ok else None
    return AuditEntry("Redfish", bmc, "192.0.2.1", user, action, "204", ok, server, {"ResetType": "On"} if ok else {})


def test_the_audit_of_one_server_is_its_own_and_what_strangers_tried_at_its_address(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = Audit(file, Bus())
    audit.record(entry("first", "ctrl-0"))
    audit.record(entry("other", "ctrl-1", "192.0.2.21"))
    audit.record(entry("login", None, ok=False))
    audit.record(entry("login elsewhere", None, "192.0.2.21", ok=False))
    audit.close()
    with file.open("a") as opened:
        opened.write('{"at": 1, "serv')
    found = read_audit(file, "ctrl-0", "192.0.2.20")
    assert [(one.action, one.ok) for one in found] == [("login", False), ("first", True)]
    assert found[1].details == {"ResetType": "On"} and found[0].user is None


def test_of_a_long_audit_the_latest_are_read_and_of_none_nothing(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert read_audit(file, "ctrl-0", "192.0.2.20") == ()
    audit = Audit(file, Bus())
    for number in range(3 * MOST_LINES):
        audit.record(entry(f"n{number}", "ctrl-0"))
    audit.close()
    found = read_audit(file, "ctrl-0", "192.0.2.20")
    assert len(found) == MOST_LINES and found[0].action == f"n{3 * MOST_LINES - 1}"


def test_a_log_is_told_the_latest_first() -> None:
    log = Log()
    log.add(LogKind.POWERED_ON, "on")
    log.add(LogKind.REMOVED, "gone", warning=True)
    assert [(one.text, one.warning) for one in read_log(log)] == [("gone", True), ("on", False)]
