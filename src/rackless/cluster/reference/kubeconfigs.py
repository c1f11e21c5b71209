"""Kubeconfigs of a lab, with the administrators' keys: for inside, or outside by the hypervisor's loopback."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import yaml

from rackless.cluster.reference.keys import Keys
from rackless.errors import LabError
from rackless.lab.api_forward import host_url
from rackless.ports.api import NAMESPACE
from rackless.run.journal import Journal
from rackless.run.paths import LabPaths
from rackless.trust.kubeconfig import render_kubeconfig


def lab_kubeconfig(paths: LabPaths) -> str:
    """For the lab's own API, which has its hosts."""
    url = host_url(paths.api_port)
    if url is None or not (paths.api_pki / "admin.key").exists():
        raise LabError(f"the lab {paths.name} has no Kubernetes API yet", hint="`rackless up` starts it")
    return render_kubeconfig(f"rackless-{paths.name}", url, paths.api_pki, NAMESPACE)


def inner_kubeconfig(paths: LabPaths) -> str:
    """For the lab's own API, from inside the lab."""
    try:
        return paths.inner_kubeconfig.read_text()
    except FileNotFoundError as error:
        hint = "`rackless up` starts it"
        raise LabError(f"the lab {paths.name} has no Kubernetes API yet", hint=hint) from error


def has_cluster(paths: LabPaths) -> bool:
    """Whether the cluster on the nodes was brought up, by us or by an installer; it may be switched off now."""
    if paths.install_kubeconfig.exists():
        return True
    return Keys(paths.cluster_keys).made and Journal(paths.journal, paths.goal).read().goal == "cluster"


def cluster_kubeconfig(paths: LabPaths) -> str:
    """For the API of the cluster on its nodes, which is at its VIP inside the lab."""
    url, keys = host_url(paths.cluster_port), Keys(paths.cluster_keys)
    if url is not None and (own := paths.install_kubeconfig).exists():
        config = yaml.safe_load(own.read_text())
        cluster = config["clusters"][0]["cluster"]
        if paths.installer_state.exists():  # an openshift-install's
            cluster["tls-server-name"] = urlsplit(cluster["server"]).hostname  # certificates have names only
        cluster["server"] = url
        return json.dumps(config, indent=2) + "\n"
    if url is None or not keys.made:
        raise LabError(
            f"the lab {paths.name} has no cluster yet",
            why="no control plane of it has been given a system",
            hint="`rackless up` provisions them, where the lab has servers with the role control-plane",
        )
    return render_kubeconfig(f"rackless-{paths.name}-cluster", url, keys.api, "default")
