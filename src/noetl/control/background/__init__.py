"""What a server does without being asked: recovery, garbage collection, retention, takeover.

Read first: `background_jobs.py`.
"""
