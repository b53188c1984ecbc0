"""What an experiment takes from its article: numbers and findings are kept once, in naslab/published.

`[source] article = "NAME"` brings all of the article's numbers. A `[[published]]` of the same id then only says where
the number is drawn, one of a table's id brings the table, and a `[[claim]]` of a finding's name only says how it is
tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError

if TYPE_CHECKING:
    from naslab.published.article import Article

_PLACED = ("id", "chart", "condition", "group", "file", "conditions")


def with_article(data: dict[str, Any], where: str) -> dict[str, Any]:
    """The experiment's data with what its article tells filled in; as it is where it names none. Raises UsageError."""
    source = data.get("source")
    if not isinstance(source, Mapping) or "article" not in source:
        return data
    from naslab.published.article import article

    if more := sorted(set(source) - {"article"}):
        raise UsageError(f"{where}source.{more[0]}: it is the article's; leave it out")
    try:
        found = article(str(source["article"]))
    except UsageError as error:
        raise UsageError(f"{where}source.{error}") from None
    claims = [_claim(each, found) for each in _list(data, "claim")]
    return {
        **data, "source": found.source, "published": list(_published(_list(data, "published"), found, where)),
        "claim": claims,
    }  # fmt: skip


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    found = data.get(key, [])
    return found if isinstance(found, list) else []


def _published(own: list[Any], article: Article, where: str) -> Iterator[Any]:
    """The article's numbers with where they are drawn, then the experiment's own."""
    placed = {each["id"]: each for each in own if isinstance(each, Mapping) and isinstance(each.get("id"), str)}
    for name in (*article.numbers, *article.tables):
        if name in placed and (more := sorted(set(placed[name]) - set(_PLACED))):
            raise UsageError(f"{where}published[{name}].{more[0]}: it is the article's; leave it out")
    for number in article.numbers.values():
        told = {"id": number.id, "what": number.what, "value": number.value, "unit": number.unit, "place": number.place}
        yield {**told, **placed.get(number.id, {})}
    for table in (each for each in article.tables.values() if each.id in placed):
        rows = {row: list(values) for row, values in table.rows.items()}
        told = {"id": table.id, "unit": table.unit, "place": table.place, "columns": list(table.columns), "rows": rows}
        yield {**told, **placed[table.id]}
    known = {*article.numbers, *article.tables}
    yield from (each for each in own if not isinstance(each, Mapping) or str(each.get("id")) not in known)


def _claim(data: Any, article: Article) -> Any:
    finding = article.findings.get(str(data.get("id"))) if isinstance(data, Mapping) else None
    return data if finding is None else {"place": finding[0], "words": finding[1], **data}
