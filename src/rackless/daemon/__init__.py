"""labd: opens the drivers, supervises, serves the control socket."""
