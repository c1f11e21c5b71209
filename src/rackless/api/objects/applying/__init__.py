"""Server-side apply: managedFields, conflicts, and merging an applied configuration into an object."""
