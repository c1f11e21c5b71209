"""The edges: each driver implements ports against one outside thing."""
