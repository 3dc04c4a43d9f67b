"""`slack` and `teams`: messages to a channel by an incoming webhook."""
