"""Trust: certificate authorities and the certificates they sign, signing requests, passwords, ssh keys, kubeconfigs.

One implementation, several root CAs that do not trust each other: the lab's TLS (BMCs, Ironic), the clients of an API,
etcd. Each root is an `Authority` in a folder of its own, so a BMC's certificate opens no API.

    authority.Authority.ensure(folder, name)     a CA, made once
        .ensure_leaf(name, hosts, uses=…)        a key and its certificate in the same folder, renewed when due
        .sign(public_key, subject, …)            a certificate for somebody else's key
    requests.make_request, requests.read_request certificate signing requests: written, and read whole
    kubeconfig.render_kubeconfig                 how kubectl finds an API and is let in
    secrets.ensure_password, ensure_ssh_key      made once, 0600
"""
