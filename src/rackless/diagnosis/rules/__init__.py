"""Which symptom has which cause: one module for each family, one tuple of rules for each kind of evidence."""
