"""Authentication and authorization (RBAC, node authorizer) of requests to the API."""
