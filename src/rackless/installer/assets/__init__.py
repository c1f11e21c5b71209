"""What an install is made of, as a graph: install-config → names, keys, manifests → Ignition configs.

    asset       a value with a name, what it needs, and the function that makes it
    graph       all of them, and the targets that can be asked for
    state       what is known of a folder from earlier commands
    store       fetch: what is on disk, what is known, what must be made → what to write and what to consume
    drawing     the graph as text, DOT or Mermaid
    catalogue   the list of targets
    (the rest)  the assets themselves

Nothing here reads or writes a file: `operations/install/assets.py` does.
"""
