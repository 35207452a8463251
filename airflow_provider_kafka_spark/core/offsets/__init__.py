"""Offsets of one log: ranges of them and sets of ranges, how tasks share them, and which offset a copied record had."""
