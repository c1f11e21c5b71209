"""Starting a server as the bootstrap machine and switching it off after: a short process inside the lab's namespaces, where BMCs
are reached.

It is started by `operations/install/cluster.py` with a file that says all it needs, and answers with one JSON object.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rackless.cluster.bootstrap import on_server
from rackless.installer.install_config.bmc_address import parse
from rackless.installer.install_config.live.redfish import RedfishError, RedfishReader

BMC_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class ServerSetting:
    action: str
    """`ensure` or `retire`."""
    server: str
    image: str
    """The disc's URL."""
    bmc: str
    username: str
    password: str = field(repr=False)
    verify: bool = False

    def dump(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    setting = ServerSetting(**json.loads(Path(sys.argv[1]).read_text()))
    client = RedfishReader(parse(setting.bmc), setting.username, setting.password, setting.verify, BMC_WITHIN)
    work = on_server.retire if setting.action == "retire" else on_server.ensure
    try:
        answer: dict[str, object] = {"changed": work(client, setting.image)}
    except RedfishError as error:
        answer = {
            "failed": f"the BMC of {setting.server} does not do it",
            "why": str(error),
            "hint": error.fix,
        }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
