"""The user's own openshift-install in the twin of a site: quick, in full, or asking a site's real BMCs."""
