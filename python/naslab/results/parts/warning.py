"""What a reader of the numbers must know: of a run, and of a cell."""

from typing import Annotated

from naslab.results.describe import Count, Part, Sentence, Word, about


class RunWarning(Part):
    """Warning."""

    kind: Annotated[Word, about("one word for programs, e.g. client_cache, unfinished")]
    message: Annotated[Sentence, about("one sentence for people")]
    cell: Annotated[Count | None, about("id of the cell it is about; null: the run")]
