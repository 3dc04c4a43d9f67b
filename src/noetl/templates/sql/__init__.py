"""SQL text with templates: split into statements, every template a bound parameter or a checked name.

Values never become SQL: the lexer decides from the author's text alone where a template stands, before anything is
evaluated. Databases and drivers are not known here. Read first: `statements.py`, `binding.py`.
"""
