"""Making it happen: the ledger of what we own, the store of records, waiting."""
