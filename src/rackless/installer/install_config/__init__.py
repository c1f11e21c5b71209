"""install-config.yaml: made right, and checked before its own installer sees it.

    document   text → nodes with lines and columns
    decode     nodes → values by the field table (`schema`), as the installer's JSON decoder does
    config     old fields converted, defaults filled in, everything typed
    rules/     what the installer rejects, and when; what it accepts and then dies of
    checking   runs the rules, gives the verdict
    writing    the other way: a `ClusterInput` rendered as a file that passes
    live/      what only the site itself can answer (DNS, addresses in use, BMCs, bridges)

All but `live/` is pure. Nothing here knows a lab, a server or a driver.
"""
