"""`llm`: chats with a language model behind any endpoint that speaks OpenAI's protocol. Read first: `tool.py`."""
