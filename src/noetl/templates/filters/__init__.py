"""The filters of templates, as an allow-list. `table.py` names each filter with what it may be given."""
