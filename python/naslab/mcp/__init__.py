"""`naslab mcp`: the library for language models by the Model Context Protocol; measuring only where it was allowed."""
