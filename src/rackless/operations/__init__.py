"""What a person can ask for: up, plan, down, destroy, status and the rest. Run on the hypervisor, outside the lab's namespaces;
the CLI and the web page call these."""
