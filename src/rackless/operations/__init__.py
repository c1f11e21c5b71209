"""What can be asked, from the hypervisor's side: up, plan, down, destroy, status and the rest. The CLI calls these."""
