"""The keychain: what secrets are called, where they are found, and how they are kept (KEY-01 to KEY-07).

Resolvers run in the server. What they find goes to the worker that holds the order, in memory, and nowhere else.
"""
