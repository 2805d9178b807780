import pytest

from headrace.errors import ConfigError
from headrace.runtime.stage import Stage


def test_refuses_a_stage_that_nobody_works_at():
    with pytest.raises(ConfigError, match="stage 'prep' needs workers >= 1, got 0"):
        Stage(name="prep", function=len, workers=0)
