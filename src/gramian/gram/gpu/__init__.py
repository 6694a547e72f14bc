"""The engine on a GPU: generated products, factors, preconditioners, and rows of mixtures and features."""
