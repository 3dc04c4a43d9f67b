"""`noetl schema`: the JSON Schema of playbooks, for editors and other programs (DOC-13)."""

from __future__ import annotations

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema (draft 2020-12) of playbooks in v10, the canonical dialect.

    Save it, and name it in the first line of a playbook for completion and checks while you type:

    \b
    # yaml-language-server: $schema=./noetl.schema.json
    """
    import json

    from noetl.language.grammar.json_schema import playbook_schema
    from noetl.tools.kinds import load_kinds

    click.echo(json.dumps(playbook_schema(load_kinds()), indent=2, ensure_ascii=False))
