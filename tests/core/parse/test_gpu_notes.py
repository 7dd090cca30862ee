"""What is wrong with a GPU, in words."""

from orchestrator.core.parse.gpu_notes import notes


def test_what_is_wrong_with_a_gpu_is_said_in_words() -> None:
    """A power cap at full load is as it should be."""
    assert notes({"throttle_reasons": 0x5, "ecc_uncorrected": 0, "mig": False}) == ()
    extra = {
        "throttle_reasons": 0x80,
        "ecc_uncorrected": 2,
        "remapped_rows": [1, 2, 1, 0],
        "retired_pages": [3, 1],
        "nvlink_errors": {"replay": 7},
        "mig_devices": [{}, {}],
    }
    assert notes(extra) == (
        "power brake", "2 uncorrected ECC errors", "2 rows remapped",
        "a row waits for a reset to be remapped", "4 pages retired", "7 NVLink errors",
        "MIG, 2 parts",
    )  # fmt: skip
    assert notes({"error": "GPU is lost"}) == ("GPU is lost",)
