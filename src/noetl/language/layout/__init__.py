"""Layout: a document as it is written, with its comments, taken apart and written again.

`noetl fmt` and `noetl migrate` both change text this way; it is the only code that decides which comment belongs to
what. It knows no keys and no dialect. Read first: `model.py`, `reader.py`, `writer.py`.
"""
