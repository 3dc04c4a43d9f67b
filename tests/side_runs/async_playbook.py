"""A playbook whose task goes on beside its step."""

from __future__ import annotations

ASYNC = """
workload: {table: orders}
workflow:
  - step: start
    tool:
      - {name: first, kind: python, code: x}
      - name: insert
        kind: python
        code: x
        args: {row: "{{ first.id }}", table: "{{ workload.table }}"}
        spec: {async: true}
      - {name: second, kind: python, code: x, args: {ref: "{{ insert }}"}}
"""
