"""The ledger: what copies say that they have done, and what follows for each offset of the source."""
