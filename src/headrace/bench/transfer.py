"""What is copied between CPU and GPU on the way from a video to a normalised tensor, in bytes."""

from headrace.bench.benchmark import Context
from headrace.bench.contest import hold_contest
from headrace.bench.model_choice import indexes_of
from headrace.bench.transfer_record import NO_GPU, TransferConfig, TransferRecord


def measure_transfer(config: TransferConfig, context: Context) -> TransferRecord:
    """Prove that all ways give the same tensors, then time them in turns; count what they copy.

    Raises:
        ConfigError, MediaError: the video cannot be read.
        BackendError: a way gives other tensors than the first.
    """
    import torch

    from headrace.bench.transfer_variants import Flows

    made = context.provenance(config)
    (index,) = indexes_of(config.videos, context.store)
    has_gpu = torch.cuda.is_available()
    context.on_progress("proving that all ways give the same", 0, 0)
    with Flows.of(index, config, context.clock, device="cuda" if has_gpu else "cpu") as flows:
        flows.prove()
        ways = flows.ways()
        turns = (
            hold_contest(ways, repeats=config.repeats, context=context) if has_gpu and ways else ()
        )
        carried = flows.carried(None if has_gpu else NO_GPU)
    return TransferRecord(
        provenance=made,
        turns=turns,
        size=config.size,
        batch_size=config.batch_size,
        gpu=torch.cuda.get_device_name() if has_gpu else None,
        ways=carried,
    )
