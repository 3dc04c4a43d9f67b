"""Loops: when iterations are handed out, what they may write, and when a loop is done (LOOP-01 to LOOP-15).

A loop is a step modifier, not a kind of step. Its state is a frame per open level, counters and a bitmap; only
iterations that have begun and not ended are objects. Which worker takes which is not decided here.
"""
