"""`rackless api`: the embedded Kubernetes API as a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group()
def api() -> None:
    """The Kubernetes objects of a lab, without a cluster."""


@api.command()
@click.option("--store", required=True, help="Where objects are kept: sqlite:FILE or etcd:URL[,URL…].")
@click.option("--address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=6443, show_default=True, help="The port to listen on; 0 takes a free one.")
@click.option("--kubeconfig-out", type=click.Path(path_type=Path), help="Write the administrator's kubeconfig here.")
@click.option("--pki", type=click.Path(path_type=Path), help="The CA's directory (ca.crt, ca.key); made when absent.")
@click.option("--name", "names", multiple=True, help="Another name or address the certificate is for; repeatable.")
@click.option(
    "--compact-every", default=300.0, show_default=True, help="Seconds that watches can be resumed for, at least."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object when it serves.")
def serve(
    store: str,
    address: str,
    port: int,
    kubeconfig_out: Path | None,
    pki: Path | None,
    names: tuple[str, ...],
    compact_every: float,
    as_json: bool,
) -> None:
    """Serve the API until stopped."""
    import uvloop

    from rackless.api.process import Settings
    from rackless.api.process import serve as serve_api
    from rackless.errors import InputError

    if pki is None:
        if kubeconfig_out is None:
            raise InputError("the API needs a place for its CA", hint="give --pki DIR or --kubeconfig-out FILE")
        pki = kubeconfig_out.absolute().parent / "pki"
    settings = Settings(store, pki, address, port, kubeconfig_out, names, compact_every)

    def tell(url: str) -> None:
        click.echo(json.dumps({"serving": url}) if as_json else f"serving {url}")

    uvloop.run(serve_api(settings, tell))
