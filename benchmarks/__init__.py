"""Ours and the peer, interleaved in one run, ratios printed."""
