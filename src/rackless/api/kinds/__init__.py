"""The kinds that are served: what is built in, and what CustomResourceDefinitions add."""
