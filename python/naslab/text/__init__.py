"""Text and files for people: what a terminal can show, errors as sentences, output files that overwrite nothing."""
