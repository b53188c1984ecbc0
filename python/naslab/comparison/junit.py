"""A comparison as JUnit's XML, for whatever shows the results of tests: a case for each measurement and one for all."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from naslab.analysis.ratios import Judged
from naslab.comparison import words
from naslab.comparison.judgement import Comparison


def of(comparison: Comparison) -> str:
    """The XML text. Worse is a failure; undecided and too few repeats are skipped, so that nothing passes unproved."""
    cases: list[tuple[str, Judged | None]] = [("overall", comparison.overall)]
    cases += [(words.what(row), row.judged) for row in comparison.rows]
    suite = Element("testsuite", name=f"naslab compare check: {comparison.names[1]} against {comparison.names[0]}")
    counts = {"failures": 0, "skipped": 0}
    for name, judged in cases:
        case = SubElement(suite, "testcase", classname="naslab.check", name=name)
        verdict = judged.verdict if judged else None
        told = words.interval(judged) if judged else "nothing in common"
        if verdict == "worse":
            counts["failures"] += 1
            SubElement(case, "failure", message=f"worse: {told}")
        elif verdict in (None, "undecided"):
            counts["skipped"] += 1
            SubElement(case, "skipped", message=f"{verdict or 'too few repeats'}: {told}")
    suite.set("tests", str(len(cases)))
    for name, count in counts.items():
        suite.set(name, str(count))
    text = words.sentence(comparison) + "".join(f"\n{doubt.message}" for doubt in comparison.doubts)
    SubElement(suite, "system-out").text = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode") + "\n"
