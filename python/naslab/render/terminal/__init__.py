"""Runs as text for people: sentences, tables and pictures of the terminal."""
