"""The library of results in a browser, read-only: `naslab serve` shows it, `naslab export --site` writes files."""
