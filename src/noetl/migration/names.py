"""Names in templates, as `noetl.template_names` finds and changes them, for the modules of this room."""

from noetl.template_names import Renames, Token, expression, paths, renamed, template, tokens

__all__ = ["Renames", "Token", "expression", "paths", "renamed", "template", "tokens"]
