"""From hosts to a cluster: install recipes, install-config, diagnosis."""
