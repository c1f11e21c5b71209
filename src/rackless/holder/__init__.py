"""The process that owns a lab's namespaces and keeps labd running: a composition root. `python -m rackless.holder.main LAB`."""
