from pathlib import Path

import pytest

from rackless.lab import accounts
from rackless.lab.accounts import COUNT, FIRST, TPM, ServerAccounts, choose, describe_rooted

WHOLE = "         0          0 4294967295\n"
CONTAINER = "         0     100000      65536\n"
LAB, OTHER = Path("/var/lib/rackless/lab"), Path("/var/lib/rackless/other")


def test_every_server_of_every_lab_has_a_user_of_its_own_that_stays() -> None:
    found = choose(WHOLE)
    numbers = {found.of_server(lab, f"ctrl-{index}") for lab in (LAB, OTHER) for index in range(100)}
    assert len(numbers) == 200 and all(FIRST <= number < FIRST + COUNT for number in numbers)
    assert found.of_server(LAB, "ctrl-0") == choose(WHOLE).of_server(LAB, "ctrl-0")
    assert found.tpm == TPM and TPM not in numbers and found.strangers not in numbers


def test_the_numbers_are_nobody_s() -> None:
    sssd_ends, systemd_foreign = 2_000_200_000, 2_147_352_576
    assert sssd_ends < TPM < FIRST and FIRST + COUNT < systemd_foreign


def test_in_a_container_with_few_users_the_servers_share_one_that_is_not_root() -> None:
    assert choose(CONTAINER) == ServerAccounts(64055, 64055, own=False)
    assert choose(CONTAINER).of_server(LAB, "ctrl-0") == 64055
    # one that ends within the range, and one that begins there, do not do
    assert not choose(f"0 0 {FIRST + COUNT - 1}").own and choose(f"0 0 {FIRST + COUNT}").own
    assert not choose(f"{FIRST} 0 4000000000").own


def test_a_machine_on_which_only_root_opens_kvm_keeps_its_speed() -> None:
    assert choose(WHOLE, kvm_closed=True) == ServerAccounts(0, 0, own=False)


def test_a_device_is_open_when_everybody_may_read_and_write(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    assert not accounts.is_open(device)
    device.touch()
    for mode, expected in ((0o666, True), (0o660, False), (0o664, False), (0o662, False)):
        device.chmod(mode)
        assert accounts.is_open(device) is expected


def test_status_tells_of_servers_that_run_as_root_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old-0.pid").write_text("1\n")  # init is root's
    (tmp_path / "gone-0.pid").write_text("4194999")
    (tmp_path / "odd-0.pid").write_text("")
    monkeypatch.setattr(accounts, "KVM", tmp_path / "kvm")
    assert describe_rooted(["gone-0", "odd-0", "off-0"], tmp_path) == []
    (said,) = describe_rooted(["old-0", "gone-0"], tmp_path)
    assert said.startswith("old-0: started as root by an earlier version")
    (tmp_path / "kvm").touch(mode=0o600)
    (said,) = describe_rooted(["old-0"], tmp_path)
    assert "only root may open /dev/kvm" in said
