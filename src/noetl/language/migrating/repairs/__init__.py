"""Repairs: constructs that `noetl check` refuses and whose v10 form is plain, for `noetl migrate`.

Rows of the same shape as the table of spellings, and applied in the same walk over the document. The readers never use
them: a text that the specification refuses stays refused, and migrating is the author's decision. Read `REPAIRS` in
`language/migrating/rescue.py` first.
"""
