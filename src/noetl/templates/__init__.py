"""Templates: `{{ … }}` in the text of a playbook, parsed once and evaluated within a budget.

In: template text and a scope (names with values). Out: a plain JSON value, text, true or false, or a `TemplateError`.
Jinja2 parses; our own closures evaluate, so that every operation is counted and nothing outside an allow-list can be
called. Refuses to know: steps, events, tools, stores.

Read first: `expression.py` (parse and evaluate), `scope.py` (what a name means), `budget.py` (what an evaluation
costs).
"""
