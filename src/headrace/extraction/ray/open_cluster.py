"""Workers on a Ray cluster, where they are asked for; only then is Ray imported."""

from dataclasses import replace

from headrace.extraction.ray.settings import RaySettings
from headrace.extras import require
from headrace.runtime.worker_pool import PoolBackend


def on_ray(settings: RaySettings) -> PoolBackend:
    """Return what has a cluster do chunks; the cluster is joined when there is something to do.

    Raises:
        BackendError: Ray is not installed; says what adds it.
    """
    with require("ray", "--ray"):
        from headrace.extraction.ray.backend import RayBackend
    return RayBackend(settings=settings)


def sized(settings: RaySettings) -> RaySettings:
    """Return the settings with as many actors as fit in the cluster, or as were asked for.

    An actor with a GPU gets its share of the cores, too. Cost: joins the cluster, a second or two.

    Raises:
        BackendError: Ray is not installed; says what adds it.
        ConfigError: there is no cluster, or nothing of it fits.
    """
    with require("ray", "--ray"):
        from headrace.extraction.ray.backend import fitting, joined, machines
    with joined(settings.address):
        slot = settings.slot.with_cores_of(machines())
        most = settings.actors_for(fitting(slot), None)
    return replace(settings, slot=slot, most_actors=most)
