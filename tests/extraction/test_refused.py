"""Error messages of extraction, export and reading, as listed in refused.txt."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from extraction import test_journal, test_options
from extraction.features import feature_rows, running, test_values
from extraction.features.feature_rows import facts, write_folder
from extraction.test_journal import REQUEST
from headrace.extraction import extraction_options, frame_batches, frame_reader, image_encoder
from headrace.extraction.features import (
    aggregate,
    export,
    feature_options,
    feature_result,
    feature_table,
    load_feature_model,
    model_spec,
)
from headrace.extraction.features.feature_folder import FeatureFolder
from headrace.extraction.features.table_store import write_tables
from headrace.extraction.journal import HOME, Journal
from headrace.extraction.proxies import proxy_options
from headrace.extraction.ray import settings
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (
    *(extraction_options, frame_batches, frame_reader, image_encoder, feature_options),
    *(feature_result, model_spec, feature_table, proxy_options, settings, running, test_values),
    *(test_journal, test_options, feature_rows),
)


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Return the names for calls of the page; their input is in the folder `given`."""
    monkeypatch.chdir(tmp_path)
    given = tmp_path / "given"
    write_folder(given)

    written = {}

    def write(name, content):
        path = Path("given", name)
        written[path] = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(written[path])
        return path

    def tables(name, *rows):
        (given / name).mkdir(parents=True)
        list(write_tables(given / name, rows, facts()))
        return Path("given", name)

    def pool(by="mean", out="o.parquet", folder="given", **options):
        return aggregate.aggregate(FeatureFolder(Path(folder)), Path(out), by, **options)

    def export_from(folder="given", out="o", format="npy"):
        return export.export(FeatureFolder(Path(folder)), Path(out), format)

    def journal(request=None):
        journal = Journal(given / "journal")
        with journal.held(REQUEST):
            pass
        if request is not None:
            (given / "journal" / HOME / "request.json").write_text(request)
        return journal

    def measured(model, samples=running.sampling("fps 1")):  # noqa: B008
        return load_feature_model.measure_signature(model, samples, running.CPU)

    own = {"pool": pool, "export_from": export_from, "journal": journal, "measured": measured}
    own |= {"tables": tables, "write": write, "written": written, "np": np}
    own |= {"read_features": headrace.read_features, "features": headrace.read_features(given)}
    return names_in(*MODULES, **own, FrameFormat=headrace.FrameFormat)


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_an_error_has_one_line_and_leaves_no_file(names, tmp_path, call, message):
    assert "\n" not in str(check_message(call, message, names))
    assert [path.name for path in tmp_path.iterdir()] == ["given"]
    assert not [*tmp_path.rglob("*.partial"), *tmp_path.rglob("features-mean.parquet")]
    assert all(path.read_bytes() == content for path, content in names["written"].items())
