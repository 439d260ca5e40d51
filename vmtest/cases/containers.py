#!/usr/bin/python3
# timeout: 120
"""Rules that name a container, a pod or a unit, in cgroup v2 with systemd's layout."""
import contained
import place

contained.main_at("v2", place.CGROUP)
