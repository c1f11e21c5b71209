"""What only the place itself can answer. Everything here looks at the world; nothing changes it."""
