"""What the API server does besides answering: signing, namespaces that go, garbage."""
