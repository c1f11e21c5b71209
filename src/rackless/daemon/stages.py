"""The stages of `up`, in order: what the two sides of the control socket agree on."""

STAGES = ("lab", "bmc", "engine", "hosts", "cluster")
TITLES = {"lab": "lab", "bmc": "BMCs", "engine": "provisioning engine", "hosts": "hosts", "cluster": "cluster"}
