"""rackless: a rack of bare metal, without the rack."""

__version__ = "0.1.0"
