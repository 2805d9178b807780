"""`functools.cached_property` of Python 3.12, which has no lock.

In Python 3.11, all objects of a class share one lock per property. A process that is forked while
another thread computes the property, such as a worker of a DataLoader, waits for the lock forever.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801  # the name of functools
        """A value computed on its first read; concurrent threads may compute it twice."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            values = vars(instance)
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]
