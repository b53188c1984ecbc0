"""Definition files in TOML: values with units, and tables whose errors name file, key and value."""
