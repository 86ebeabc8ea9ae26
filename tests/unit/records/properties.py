"""How hard the properties of this folder are tried.

How long an example takes says something about the machine, nothing about the code: no deadlines.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
many = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
