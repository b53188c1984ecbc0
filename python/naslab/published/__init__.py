"""Results that articles print, as runs: `published:NAME` wherever a run is taken.

The numbers are in this folder's .toml files, one for each article; docs/guide/published.md explains their form.
"""

from __future__ import annotations

from naslab.published.article import Article, article, articles
from naslab.published.runs import PREFIX, is_published, load, names

__all__ = ["PREFIX", "Article", "article", "articles", "is_published", "load", "names"]
