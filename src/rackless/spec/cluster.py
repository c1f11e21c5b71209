"""How the cluster of a lab comes about."""

from __future__ import annotations

from enum import StrEnum

from rackless.spec.change import Change, setting
from rackless.spec.value import Value


class Method(StrEnum):
    DIRECT = "direct"
    IPI = "ipi"
    NONE = "none"


class ClusterSpec(Value):
    """The cluster on the lab's servers."""

    method: Method = setting(
        "`direct`: the lab provisions the nodes itself; `ipi`: a bootstrap machine installs the control plane, hands over and "
        "goes, and the cluster installs its workers; `none`: the lab ends with its BMCs, for an installer of your own.",
        Change.RECREATE,
        default=Method.DIRECT,
    )
