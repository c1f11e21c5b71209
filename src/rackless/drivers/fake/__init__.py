"""Every port in memory, first class: scripted delays and faults, for tests and scale studies."""
