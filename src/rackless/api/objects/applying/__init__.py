"""Server-side apply: who owns which field, and what an applied configuration does to an object."""
