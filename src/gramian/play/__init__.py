"""The page behind ``gramian play``: a server, and rooms that answer its questions with the library itself."""
