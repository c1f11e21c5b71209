"""People: commands, rendering, failures."""
