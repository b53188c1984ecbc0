"""The library of results in a browser: `naslab serve` shows the store, `naslab site` writes it as files. Read-only."""
