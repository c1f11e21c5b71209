"""Carrying out a plan: stages and the runner, the journal, the ledger of what a lab owns, supervised processes, paths, files,
waiting."""
