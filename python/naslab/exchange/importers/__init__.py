"""Import of other tools' results: `recognise.py` says what a file is, one module a format reads it, `build.py` makes
runs of what was read. Submodules are loaded when used."""
