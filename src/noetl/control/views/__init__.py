"""Views of a running execution besides its log.

`token_views.py` shows the place of its tokens and side runs and what they wait for. `live_output.py` keeps what tasks
print while they run. `begun_attempts.py` renders the inputs of an attempt again. Read first: `token_views.py`.
"""
