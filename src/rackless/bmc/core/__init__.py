"""One BMC whatever protocol asks: its server, power, media, accounts, faults, and what it remembers. Knows no protocol."""
