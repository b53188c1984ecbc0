"""HTML from Python, escaped by type: text becomes text, only `Html` is markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from naslab.render.report.labels import esc, tight

_EMPTY = ("input", "meta", "link", "br")


class Html(str):
    """Markup made here, or by the report's own escaping builders. Everything else is text and gets escaped."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as text in a page; markup stays as it is."""
    return value if isinstance(value, Html) else Html(esc(tight(str(value))))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Values one after the other, those that are no markup escaped. between: text, too."""
    return Html(esc(between).join(text(part) for part in parts if part is not None))


def tag(name: str, /, *children: object, **attributes: Any) -> Html:
    """One element. Attributes: None and False are left out, True stands alone; names as `class_`, `aria_label`."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{esc(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]], numeric: Sequence[int] = (),
    marks: Sequence[Mapping[str, str]] | None = None, **attributes: Any,
) -> Html:  # fmt: skip
    """A table that scrolls sideways where the page is narrow.

    numeric: columns set to the right. marks: attributes of each row.
    """
    kinds = dict.fromkeys(numeric, "num")
    head = tag("tr", *(tag("th", text(name), scope="col", class_=kinds.get(at)) for at, name in enumerate(heads)))
    body = join(
        tag(
            "tr", *(tag("td", cell, class_=kinds.get(at)) for at, cell in enumerate(row)), **(marks[n] if marks else {})
        )
        for n, row in enumerate(rows)
    )
    made = tag("table", tag("caption", caption, class_="hidden"), tag("thead", head), tag("tbody", body), **attributes)
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def select(label: str, name: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    """A labelled choice of a form. options: (value, text)."""
    made = [tag("option", words, value=value, selected=value == chosen) for value, words in options]
    return tag("label", tag("span", label), tag("select", *made, name=name), class_="choice")


def checkbox(label: object, name: str, value: str, checked: bool, **attributes: Any) -> Html:
    """A labelled box of a form."""
    box = tag("input", type="checkbox", name=name, value=value, checked=checked, **attributes)
    return tag("label", box, tag("span", label), class_="box")
