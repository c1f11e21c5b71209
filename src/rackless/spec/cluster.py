"""How the cluster of a lab comes about."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import model_validator

from rackless.spec.change import Change, setting
from rackless.spec.images import NearbyFile
from rackless.spec.members import HostName
from rackless.spec.value import Value


class Method(StrEnum):
    DIRECT = "direct"
    IPI = "ipi"
    OPENSHIFT = "openshift"
    NONE = "none"


class InstallPayload(StrEnum):
    """What an installer of OpenShift installs in a lab."""

    QUICK = "quick"
    FULL = "full"
    REAL = "real"


class BootstrapServer(Value):
    """The machine that begins an install (`method: ipi`)."""

    on: HostName | None = setting(
        "A worker's name: the bootstrap runs on that server, from virtual media and in its memory (3GiB at least), and the server "
        "is installed as a worker afterwards. Without it the bootstrap is a VM of its own.",
        Change.RECREATE,
        default=None,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_on(cls, given: Any) -> Any:
        """YAML reads an unquoted `on` as true."""
        return (
            {"on" if key is True else key: value for key, value in given.items()} if isinstance(given, dict) else given
        )


class OpenshiftSpec(Value):
    """The installer that makes the cluster (`method: openshift`), and what it is given."""

    installer: NearbyFile | None = setting(
        "Your openshift-install, of 4.16 or later; it is run as it is, inside the lab. A relative path counts from this file.",
        Change.LIVE,
        default=None,
    )
    install_config: NearbyFile | None = setting(
        "The install-config that it is given; `rackless init --from` makes the lab that fits one. Without it one is written of "
        "the lab.",
        Change.RECREATE,
        default=None,
    )
    payload: InstallPayload = setting(
        "`quick`: BMCs are asked, and the cluster is simulated at its VIP, in about a minute; `full`: the servers get the "
        "reference system through Ironic, from the installer's manifests, in about a quarter of an hour; `real`: the release's "
        "own images, for a computer with KVM, memory, a way out (`networks.uplink`) and a pull secret.",
        Change.RECREATE,
        default=InstallPayload.FULL,
    )
    pull_secret: NearbyFile | None = setting(
        "A file with the pull secret, for `payload: real`; it takes the place of the one in the install-config. OKD needs none.",
        Change.LIVE,
        default=None,
    )
    release_image: str = setting(
        "With `payload: real`: a release image in place of the installer's own, by digest, such as a mirror's.",
        Change.LIVE,
        default="",
        max_length=512,
    )
    oc: NearbyFile | None = setting(
        "With `payload: real`: the `oc` with which the installer takes the live ISO out of the release; without it the one on "
        "the PATH. Where there is none, the installer downloads the ISO.",
        Change.LIVE,
        default=None,
    )


class ClusterSpec(Value):
    """The cluster on the lab's servers."""

    method: Method = setting(
        "`direct`: the lab provisions the nodes itself; `ipi`: a bootstrap machine installs the control plane, hands over and "
        "goes, and the cluster installs its workers; `openshift`: your own openshift-install is run in the lab; `none`: the lab "
        "ends with its BMCs, for an installer of your own.",
        Change.RECREATE,
        default=Method.DIRECT,
    )
    bootstrap: BootstrapServer = setting(
        "The machine that begins an install.", Change.RECREATE, default=BootstrapServer()
    )
    openshift: OpenshiftSpec = setting(
        "The installer of OpenShift, for `method: openshift`.", Change.RECREATE, default=OpenshiftSpec()
    )
