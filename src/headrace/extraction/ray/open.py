"""Workers on a Ray cluster, where they are asked for; only then is Ray imported."""

from dataclasses import replace

from headrace.errors import BackendError
from headrace.extraction.ray.settings import RaySettings
from headrace.runtime.workers import RunRound


def on_ray(settings: RaySettings) -> RunRound:
    """Return what has a cluster do chunks; the cluster is joined when there is something to do.

    Raises:
        BackendError: Ray is not installed; says what adds it.
    """
    try:
        from headrace.extraction.ray.on_ray import OnRay
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return OnRay(settings=settings)


def sized(settings: RaySettings) -> RaySettings:
    """Return the settings with as many actors as fit in the cluster, or as were asked for.

    An actor with a GPU gets its share of the cores, too. Cost: joins the cluster, a second or two.

    Raises:
        BackendError: Ray is not installed; says what adds it.
        ConfigError: there is no cluster, or nothing of it fits.
    """
    try:
        from headrace.extraction.ray.cluster import fitting, joined, machines
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    with joined(settings.address):
        slot = settings.slot.with_cores_of(machines())
        most = settings.actors_for(fitting(slot), None)
    return replace(settings, slot=slot, most_actors=most)


def _missing(error: ModuleNotFoundError) -> BackendError:
    return BackendError(
        f"--ray needs {error.name}, which is not installed: pip install 'headrace[ray]'"
    )
