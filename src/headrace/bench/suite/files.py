"""The page of a survey in its folder, written, and rendered again from the records alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.bench.suite.config import Registered
from headrace.bench.suite.ranking import judge
from headrace.bench.suite.suite_content import survey_page
from headrace.bench.suite.suite_record import SurveyRecord
from headrace.report.survey import SurveyPage, render_survey
from headrace.text_file import write_whole

PAGE: Final = "all.html"


def write_page(page: SurveyPage, folder: Path) -> Path:
    """Write the page into `folder`; return where it lies.

    Raises:
        ConfigError: it cannot be written.
    """
    write_whole(folder / PAGE, render_survey(page))
    return folder / PAGE


def page_of(experiments: Sequence[Registered], record: SurveyRecord, folder: Path) -> SurveyPage:
    """Return the page of the survey whose records lie in `folder`."""
    return survey_page(judge(experiments, record, folder))
