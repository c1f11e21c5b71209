"""A lab whose cluster is installed by the user's own openshift-install (`cluster: {method: openshift}`)."""
