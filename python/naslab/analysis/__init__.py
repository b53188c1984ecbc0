"""Turns results into statements: validity, summaries in words."""
