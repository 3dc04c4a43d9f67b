"""Drawings of nets: what there is to draw, where it goes, and the languages it is written in."""
