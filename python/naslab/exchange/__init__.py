"""Import and export of results. Submodules are loaded when used: `export`, `json_file`, `excel`."""
