#!/usr/bin/python3
# timeout: 120
# cgroup: hybrid
"""Rules that name a container, a pod or a unit, in cgroup v1 hierarchies with the plain layout."""
import contained
import runtimes

contained.main_at("v1", runtimes.V1)
