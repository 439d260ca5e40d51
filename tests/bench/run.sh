#!/bin/bash
# Measure what chaosbpf costs and how exact it is, on this kernel and in virtual machines; `make bench` calls this.
#
#   run.sh [KERNEL...]      the kernels of the virtual machines, 6.12 by default; 'here' alone for none
#
# Environment: CHAOSBPF, the program; SCALE, how much longer (2) or shorter (0.5) to measure.
# What is measured, and how, stands in bench.py. No test depends on it: times are for reading.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=$top/build/bench
results=$build/results
program=${CHAOSBPF:-$top/build/chaosbpf}
scale=${SCALE:-1}
kernels=("${@:-6.12}")

build_tools() {
	local multiarch
	multiarch=$(cc -print-multiarch 2>/dev/null || true)
	mkdir -p "$results"
	cc -std=gnu17 -O2 -Wall -Wextra -D_GNU_SOURCE "$here/traffic.c" -o "$build/traffic"
	cc -std=gnu17 -O2 -Wall -Wextra -D_GNU_SOURCE "$here/requests.c" -o "$build/requests"
	cc -std=gnu17 -O2 -Wall -Wextra -D_GNU_SOURCE "$here/calls.c" -o "$build/calls" -ldl
	cc -std=gnu17 -O2 -Wall -Wextra -fPIC -shared -D_GNU_SOURCE "$here/callee.c" -o "$build/libcudart-bench.so.12"
	cc -std=gnu17 -O2 -Wall -Wextra -fPIC -shared -DPRELOAD "$here/callee.c" -o "$build/libpreload.so"
	clang -target bpf -mcpu=v2 -O2 -g -Wall -Wextra ${multiarch:+-idirafter "/usr/include/$multiarch"} \
		-c "$here/empty.bpf.c" -o "$build/empty.bpf.o"
}

# The object file has to be added by name: what is built for the virtual machine leaves objects out.
in_guest() { # KERNEL
	"$top/vmtest/run.sh" --kernel "$1" --timeout 1500 --add "$build/traffic" --add "$build/requests" --add "$build/empty.bpf.o" \
		--add "$build/calls" --add "$build/libcudart-bench.so.12" --add "$build/libpreload.so" --exec \
		"exec python3 /chaos/tests/bench/bench.py --tools /chaos/add --scale $scale --where emulated"
}

# Of the program a copy, so that what is measured stays the same while somebody builds.
build_tools
cp "$program" "$build/chaosbpf"
export CHAOSBPF=$build/chaosbpf
rm -f "$results"/*
if [ "$(id -u)" = 0 ]; then
	echo "bench: here, on $(uname -r)"
	python3 "$here/bench.py" --tools "$build" --scale "$scale" --where here >"$results/0-here" ||
		echo "bench: nothing measured here"
else
	echo "bench: without root, in virtual machines only"
fi
for kernel in "${kernels[@]}"; do
	[ "$kernel" != here ] || continue
	echo "bench: in a virtual machine, on $kernel; its processor is emulated: look at its ratios and at its delays"
	in_guest "$kernel" | tee "$results/1-$kernel" | sed '/^RESULT /d' || echo "bench: nothing measured on $kernel"
done
echo
python3 "$here/bench.py" --table "$results"/*
