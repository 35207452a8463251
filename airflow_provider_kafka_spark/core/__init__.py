"""The rules: plain data in, plain data out. Standard library only."""
