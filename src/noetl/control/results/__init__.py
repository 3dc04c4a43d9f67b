"""Large results while deciding: cached, fetched before they are needed, waited for. Read first: `result_cache.py`,
`order_reads.py` (which results an order brings along)."""
