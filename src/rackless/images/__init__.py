"""What boots: the deploy ramdisk and the node image, built from packages, cached by content."""
