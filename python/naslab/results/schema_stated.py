"""What a source states besides its rates: limits, and numbers that it computed from others."""

from __future__ import annotations

from naslab.results.fields import field as _f

COVERS_FILE_BYTES = _f(
    "covers_file_bytes",
    "integer[]",
    "smallest and largest file size that the rate is a mean over, or holds over; file_bytes is null then",
    "bytes",
    required=False,
)

STATED = (
    _f("limits", "stated_limit[]", "limits of the system, as stated by the source"),
    _f("derived", "stated_number[]", "numbers that the source derived from its other numbers"),
)

STATED_LIMIT = (
    _f("what", "string", "what has the limit"),
    _f("kind", "string", "of a link, or of disks", enum=("link", "disk")),
    _f("bytes_per_s", "number", "the limit", "bytes/s"),
    _f("op", "string?", "the only operation it applies to; null: all"),
)

STATED_NUMBER = (
    _f("what", "string", "what it is"),
    _f("how", "string", "how it was computed", enum=("mean", "difference")),
    _f("bytes_per_s", "number", "as printed", "bytes/s"),
    _f("printed_to_bytes_per_s", "number", "one unit of its last digit", "bytes/s"),
    _f("of", "stated_part[]", "what it was computed from"),
)

STATED_PART = (
    _f("what", "string", "what it is"),
    _f("bytes_per_s", "number", "its rate", "bytes/s"),
    _f("labels", "string{}", "conditions it was measured under", required=False),
)

TABLES = {
    "stated": ("Stated", STATED),
    "stated_limit": ("Stated limit", STATED_LIMIT),
    "stated_number": ("Stated number", STATED_NUMBER),
    "stated_part": ("Part of a stated number", STATED_PART),
}
