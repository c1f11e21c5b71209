"""From a BMC to a running operating system; knows BMC addresses, never servers."""
