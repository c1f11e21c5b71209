"""From provisioned hosts to a cluster: the reference cluster, the bootstrap machine, and the real OpenShift installer."""
