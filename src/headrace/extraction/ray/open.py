"""Workers on a Ray cluster, where they are asked for; only then is Ray imported."""

from headrace.errors import BackendError
from headrace.extraction.ray.settings import RaySettings
from headrace.extraction.workers import RunRound


def on_ray(settings: RaySettings) -> RunRound:
    """Return what has a cluster do chunks; the cluster is joined when there is something to do.

    Raises:
        BackendError: Ray is not installed; says what adds it.
    """
    try:
        from headrace.extraction.ray.on_ray import OnRay
    except ModuleNotFoundError as error:
        raise BackendError(
            f"--ray needs {error.name}, which is not installed: pip install 'headrace[ray]'"
        ) from error
    return OnRay(settings=settings)
