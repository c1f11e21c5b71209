from datetime import UTC, datetime, timedelta
from pathlib import Path

from rackless.trust.authority import Authority, Use
from rackless.trust.expiry import expired


def test_certificates_are_over_after_their_end_and_other_files_are_passed_over(tmp_path: Path) -> None:
    authority = Authority.ensure(tmp_path / "tls", "a lab")
    authority.ensure_leaf("ironic", ["192.0.2.1"], uses=(Use.SERVER,))
    (tmp_path / "tls/no.crt").write_text("no certificate")
    now = datetime.now(UTC)
    assert expired(tmp_path, now) == [] == expired(tmp_path / "nowhere", now)
    later = now + timedelta(days=36500)
    over = expired(tmp_path, later)
    assert [file for file, _ in over] == ["tls/ca.crt", "tls/ironic.crt"] and all(ended < later for _, ended in over)
