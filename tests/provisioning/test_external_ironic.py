"""Somebody else's Ironic: what is kept of the way to it, and that every way to miss it has a name."""

import ssl
from pathlib import Path

import pytest

from rackless.drivers.ironic.foreign import ForeignIronic
from rackless.errors import InputError, LabError
from rackless.provisioning import external_ironic
from rackless.run.paths import LabPaths, Roots
from rackless.spec.provisioner import ProvisionerSpec
from tests.drivers.ironic.certificates import write_certificates
from tests.drivers.ironic.ironic_standin import IronicStandIn


@pytest.fixture
def paths(tmp_path: Path) -> LabPaths:
    (tmp_path / "password").write_text("a password\n")
    return LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")


def spec(folder: Path, url: str, *, ca: Path | None = None, password_file: str = "password") -> ProvisionerSpec:
    return ProvisionerSpec.model_validate({
        "url": url,
        "ca": ca and str(ca),
        "credentials": {"username": "me", "password_file": str(folder / password_file)},
    })  # fmt: skip


async def refusal(wanted: ProvisionerSpec, paths: LabPaths) -> LabError:
    external_ironic.keep(wanted, paths)
    with pytest.raises(LabError) as error:
        await ForeignIronic(external_ironic.load(wanted, paths)).check()
    assert error.value.hint
    return error.value


async def test_one_that_knows_us_and_speaks_redfish_is_fine_and_its_password_is_kept_private(
    tmp_path: Path, paths: LabPaths
) -> None:
    async with IronicStandIn(account=("me", "a password")).serving() as url:
        wanted = spec(tmp_path, url)
        external_ironic.keep(wanted, paths)
        found = external_ironic.load(wanted, paths)
        await ForeignIronic(found).check()
    assert "a password" not in repr(found)
    (kept,) = paths.secrets.glob("*.password")
    assert kept.stat().st_mode & 0o077 == 0


def test_without_credentials_nobody_is_named(paths: LabPaths) -> None:
    found = external_ironic.load(ProvisionerSpec.model_validate({"url": "https://192.0.2.1:6385"}), paths)
    assert (found.username, found.password) == ("", "")


async def test_a_wrong_password_is_not_let_in(tmp_path: Path, paths: LabPaths) -> None:
    async with IronicStandIn(account=("me", "another")).serving() as url:
        error = await refusal(spec(tmp_path, url), paths)
    assert error.what == f"the Ironic at {url} does not let us in" and "401" in error.why
    assert "a password" not in str(error)


async def test_nobody_there_does_not_answer(tmp_path: Path, paths: LabPaths) -> None:
    error = await refusal(spec(tmp_path, "http://127.0.0.1:1"), paths)
    assert error.what == "the Ironic at http://127.0.0.1:1 does not answer"
    assert "from inside the lab" in error.hint


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_certificate_of_another_ca_is_named_as_such(tmp_path: Path, paths: LabPaths, trusted: bool) -> None:
    (tmp_path / "other").mkdir()
    ca, certificate, key = write_certificates(tmp_path, "127.0.0.1")
    other, _, _ = write_certificates(tmp_path / "other", "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    async with IronicStandIn().serving(tls) as url:
        if trusted:
            wanted = spec(tmp_path, url, ca=ca)
            external_ironic.keep(wanted, paths)
            await ForeignIronic(external_ironic.load(wanted, paths)).check()
            return
        error = await refusal(spec(tmp_path, url, ca=other), paths)
    assert error.what == f"the Ironic at {url} shows a certificate that is not trusted"
    assert "provisioner.ca" in error.hint


async def test_one_that_does_not_speak_redfish_is_of_no_use(tmp_path: Path, paths: LabPaths) -> None:
    async with IronicStandIn(drivers=("ipmi", "snmp")).serving() as url:
        error = await refusal(spec(tmp_path, url), paths)
    assert "does not speak Redfish" in error.what and "ipmi, snmp" in error.why


@pytest.mark.parametrize("content", [None, "\n"])
def test_a_missing_or_empty_password_file_is_named(tmp_path: Path, paths: LabPaths, content: str | None) -> None:
    if content is not None:
        (tmp_path / "odd").write_text(content)
    with pytest.raises(InputError, match=r"odd is empty|cannot be read"):
        external_ironic.keep(spec(tmp_path, "http://127.0.0.1:1", password_file="odd"), paths)
