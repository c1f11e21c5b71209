"""The forms of a patch: JSON patch, merge patch, strategic merge. Pure; each gives a new object and leaves the old
alone."""
