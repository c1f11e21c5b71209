"""What must happen: pure functions from the spec to addresses, names and servers."""
