"""How the cluster of a lab comes about."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import model_validator

from rackless.spec.change import Change, setting
from rackless.spec.members import HostName
from rackless.spec.value import Value


class Method(StrEnum):
    DIRECT = "direct"
    IPI = "ipi"
    NONE = "none"


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


class ClusterSpec(Value):
    """The cluster on the lab's servers."""

    method: Method = setting(
        "`direct`: the lab provisions the nodes itself; `ipi`: a bootstrap machine installs the control plane, hands over and "
        "goes, and the cluster installs its workers; `none`: the lab ends with its BMCs, for an installer of your own.",
        Change.RECREATE,
        default=Method.DIRECT,
    )
    bootstrap: BootstrapServer = setting(
        "The machine that begins an install.", Change.RECREATE, default=BootstrapServer()
    )
