"""What we need from the outside: small protocols, no logic."""
