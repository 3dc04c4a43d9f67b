"""Syntax: from YAML text to nodes, safely; `noetl.document.yaml` is its door."""
