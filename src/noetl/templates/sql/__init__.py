"""SQL text with templates: split into statements, every template a bound parameter, a checked name or, where SQL takes
neither, a quoted constant.

Values become SQL only where the author marks them (`| sql`): which of these a template is follows from the author's
text alone (`lexer.py`, `plan.py`, `positions.py`), before anything is evaluated. Databases and drivers are not known
here. Read first: `binding.py`, `statements.py`.
"""
