"""Data that is stored and sent: events, orders, outcomes, references, and their encoding.

In: nothing of NoETL but `base`, `templates` and `net`. Out: one class per event, with the envelope that orders them.
Events are facts in the past tense. A changed meaning is a new version; old versions stay readable. Refuses to know:
which component decides, stores or runs.

Read first: `envelope.py` (an event with its position), `events.py` (all events in one union, and their names with their
owners), `payloads.py` (what each class says of its meaning), `orders.py` (what server and worker say to each other).
"""
