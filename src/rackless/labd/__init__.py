"""The daemon of one lab, inside its namespaces: a composition root. `python -m rackless.labd.main LAB`."""
