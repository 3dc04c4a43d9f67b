"""The grammar of a playbook: one table of constructs and keys, and the JSON Schema made from it.

Each construct lists its keys, and each key says once what it holds, what it is for, in which dialects it exists,
where its templates are rendered and where the formatter puts it. Readers check keys and words against the table,
`noetl schema` and completion publish it, the formatter follows it, and `docs/dsl/keys.md` is made from it. Checks
of templates use it too; which keys have templates is listed in
`language/compiling/template_sites.py`. Inputs of tools come from `tools/kinds`.
Refuses to know: documents, source positions, messages.

Read first: `model.py`, `steps.py`, `root.py`.
"""
