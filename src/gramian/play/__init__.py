"""The page of ``gramian play``: a server, and a module for each topic that computes its answers."""
