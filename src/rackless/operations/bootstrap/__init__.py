"""What runs on the bootstrap machine of an install, and who makes that machine: a VM, or one of the servers."""
