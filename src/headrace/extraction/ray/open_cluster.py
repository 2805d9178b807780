"""Entry to the Ray backend; Ray is imported only here."""

from dataclasses import replace

from headrace.extraction.ray.settings import RaySettings
from headrace.extras import require
from headrace.runtime.worker_pool import PoolBackend


def on_ray(settings: RaySettings) -> PoolBackend:
    """Return the backend of a cluster; the cluster is joined when the first chunk runs.

    Raises:
        BackendError: Ray is not installed; the message names the extra.
    """
    with require("ray", "--ray"):
        from headrace.extraction.ray.backend import RayBackend
    return RayBackend(settings=settings)


def sized(settings: RaySettings) -> RaySettings:
    """Return the settings with the requested number of actors, or all that fit the cluster.

    An actor with a GPU also gets its share of the cores. Cost: joins the cluster, one or two
    seconds.

    Raises:
        BackendError: Ray is not installed; the message names the extra.
        ConfigError: the cluster cannot be reached, or no actor fits.
    """
    with require("ray", "--ray"):
        from headrace.extraction.ray.backend import fitting, joined, machines
    with joined(settings.address):
        slot = settings.slot.with_cores_of(machines())
        most = settings.actors_for(fitting(slot), None)
    return replace(settings, slot=slot, most_actors=most)
