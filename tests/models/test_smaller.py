"""A smaller model is a model there is, with at most a quarter of the arithmetic."""

import pytest
from torchvision import models

from headrace.models.smaller import smaller_model


@pytest.mark.parametrize("name", models.list_models(module=models))
def test_it_has_at_most_a_quarter_of_the_arithmetic_and_is_the_best_of_those(name):
    other = smaller_model(name)
    work = {each: _meta(each)["_ops"] for each in models.list_models(module=models)}
    fitting = [each for each in work if work[each] <= work[name] / 4]
    if not fitting:
        assert other is None
        return
    assert other in fitting
    assert _accuracy(other) == max(map(_accuracy, fitting))


def test_a_model_of_somebody_elses_has_none():
    assert smaller_model("my_own") is None


def _meta(name):
    return models.get_model_weights(name).DEFAULT.meta


def _accuracy(name):
    return _meta(name)["_metrics"]["ImageNet-1K"]["acc@1"]
