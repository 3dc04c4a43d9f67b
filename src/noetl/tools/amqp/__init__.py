"""`amqp`: messages of RabbitMQ and other brokers of AMQP 0-9-1.

In: rendered inputs. Out: what was published, or messages; the error of the broker with its own code. Connections are
made to addresses that the policy allows, belong to one execution or trigger, and hold the messages that it has not
acknowledged yet.

Read first: `tool.py`, `messages.py` (the operations), `connections.py` (who holds which connection).
"""
