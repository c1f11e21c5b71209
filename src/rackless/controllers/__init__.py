"""Controllers that reconcile Kubernetes objects (hosts, Machines, MachineSets, Nodes, certificate requests), and the runtime they
share."""
