"""Where the objects are kept: one small port, two stores."""
