"""`ports.firewall.Firewall` by `nft`."""

from __future__ import annotations

import json
from pathlib import Path

from rackless.drivers.process import LocalProcesses


class NftFirewall:
    async def replace(self, rules: str, *, namespace: Path | None = None) -> None:
        enter = ["nsenter", f"--net={namespace}", "--"] if namespace is not None else []
        await LocalProcesses().run([*enter, "nft", "-f", "-"], input=rules.encode())

    async def remove(self, table: str) -> None:
        await LocalProcesses().run(["nft", "delete", "table", "ip", table], check=False)

    async def sets(self, name: str) -> dict[str, frozenset[str]]:
        shown = await LocalProcesses().run(["nft", "--json", "list", "sets"], check=False)
        if shown.code:
            return {}
        found = [item["set"] for item in json.loads(shown.stdout or "{}").get("nftables", ()) if "set" in item]
        return {
            one["table"]: frozenset(map(str, one.get("elem", ())))
            for one in found
            if one["family"] == "ip" and one["name"] == name
        }
