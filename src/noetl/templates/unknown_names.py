"""What to say about a filter, test or function that does not exist here."""

from __future__ import annotations

from collections.abc import Collection

from noetl.base.errors import TemplateError
from noetl.templates.undefined import clipped

_WAYS_OUT = {
    "attr": "write a.b or a['b']",
    "fromjson": "text is never parsed into other types: use a python task",
    "from_json": "text is never parsed into other types: use a python task",
    "to_json": 'write "tojson"',
    "bool": "compare with == true",
    "random": "a replay would differ: use a python task",
    "regex_replace": "use replace, or a python task",
    "regex_search": "use in, or a python task",
    "pprint": 'use "tojson" with an indent',
    "namespace": "use a python task to count or collect",
    "combine": "use a python task to merge mappings",
    "strftime": "write now().strftime('%Y-%m-%d')",
    "ternary": "write a if condition else b",
    "zip": "use a python task",
    "uuid4": "a replay would differ: use execution_id, or a python task",
    "env": "a playbook reads its workload: pass the value in when you start it",
}


def unknown(kind: str, name: str, known: Collection[str]) -> TemplateError:
    """The error for a `kind` ("filter", "test", "function") that is not on the allow-list."""
    way_out = _WAYS_OUT.get(name)
    from difflib import get_close_matches  # only who made a mistake waits for it

    near = get_close_matches(name, known, n=1, cutoff=0.7)
    if way_out is None and near:
        way_out = f'did you mean "{near[0]}"?'
    if way_out is None and len(known) < 10:
        way_out = f"there are {', '.join(sorted(known))}"
    return TemplateError(f'there is no {kind} "{clipped(name)}"' + (f": {way_out}" if way_out else " in templates"))
