"""A whole lab in one process and in virtual time: our own programs as coroutines in a world of fakes."""
