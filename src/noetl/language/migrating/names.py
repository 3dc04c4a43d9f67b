"""Names in templates, as `noetl.base.template_names` finds and changes them, for the modules of this room."""

from noetl.base.template_names import NameToken, Renames, expression, paths, renamed, template, tokens

__all__ = ["NameToken", "Renames", "expression", "paths", "renamed", "template", "tokens"]
