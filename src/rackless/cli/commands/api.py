"""`rackless api`: the embedded Kubernetes API as a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from rackless.cli.groups import SuggestingGroup

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(cls=SuggestingGroup)
def api() -> None:
    """The Kubernetes objects of a lab, without a cluster."""


@api.command()
@click.option("--store", required=True, help="Where objects are kept: sqlite:FILE or etcd:URL[,URL…].")
@click.option("--address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=6443, show_default=True, help="The port to listen on; 0 takes a free one.")
@click.option("--kubeconfig-out", type=click.Path(path_type=Path), help="Write the administrator's kubeconfig here.")
@click.option("--pki", type=click.Path(path_type=Path), help="The CA's directory (ca.crt, ca.key); made when absent.")
@click.option("--store-ca", type=_FILE, help="The CA of etcd's certificates, for etcd:https://…")
@click.option("--store-cert", type=_FILE, help="The certificate to show to etcd.")
@click.option("--store-key", type=_FILE, help="Its key.")
@click.option("--advertise", metavar="URL", help="Where clients find us, for the kubeconfig: a load balancer's URL.")
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
    store_ca: Path | None,
    store_cert: Path | None,
    store_key: Path | None,
    advertise: str | None,
    names: tuple[str, ...],
    compact_every: float,
    as_json: bool,
) -> None:
    """Serve the API until stopped."""
    # The HTTP library reads all CAs of the system when it is imported, a tenth of the time to start. Whom we believe
    # is named in options.
    os.environ["SSL_CERT_FILE"] = os.devnull
    import uvloop

    from rackless.api.process import ApiSettings
    from rackless.api.process import serve as serve_api
    from rackless.errors import InputError

    if pki is None:
        if kubeconfig_out is None:
            raise InputError("the API needs a place for its CA", hint="give --pki DIR or --kubeconfig-out FILE")
        pki = kubeconfig_out.absolute().parent / "pki"
    if bool(store_cert) != bool(store_key):
        raise InputError("a certificate for etcd and its key go together", hint="give --store-cert and --store-key")
    if advertise is not None and not advertise.startswith("https://"):
        raise InputError(f"{advertise!r} is no URL of an API", hint="say https://NAME:PORT")
    settings = ApiSettings(
        store, pki, address, port, kubeconfig_out, names, compact_every,
        advertise=advertise or "", store_ca=store_ca, store_cert=store_cert, store_key=store_key,
    )  # fmt: skip

    def tell(url: str) -> None:
        click.echo(json.dumps({"serving": url}) if as_json else f"serving {url}")

    uvloop.run(serve_api(settings, tell))
