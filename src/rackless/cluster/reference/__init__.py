"""The reference cluster: small and real, made of nothing but packages."""
