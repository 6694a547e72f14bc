"""Every certificate is computed again on hard cases drawn from a seed; ``make fuzz SEED=7`` draws thousands."""

import os

import pytest

from fuzzing import cases, faults

SEED = int(os.environ.get("FUZZ_SEED", "0"))
COUNT = int(os.environ.get("FUZZ_COUNT", "300"))
MOST = int(os.environ.get("FUZZ_ROWS", "100"))


@pytest.mark.parametrize("case", cases(SEED, COUNT, MOST), ids=lambda case: f"{case.estimator}-{case.seed}")
def test_the_certificate_is_true(case):
    if wrong := faults(case):
        pytest.fail("\n".join([repr(case), *wrong]), pytrace=False)
