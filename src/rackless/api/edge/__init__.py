"""HTTP: requests to operations, results to responses."""
