#!/bin/bash
# Boot Debian's kernels in QEMU and run the cases of vmtest/cases in them. `make vmtest` calls this.
#
#   run.sh [--kernel LIST] [--case LIST]    run cases; lists are separated by commas, cases may be globs
#   run.sh --kernel 6.1 --exec 'COMMAND'    run a shell command in a guest; output and exit code are the command's
#   run.sh --kernel 6.1 --shell             look around in a guest
#   run.sh --list                           the kernels and the cases
#
# Options:  --add FILE   bring FILE to /chaos/add/ in the guest, with its libraries (may be repeated)
#           --hybrid     --exec and --shell: cgroup v1 hierarchies with cgroup2 beside them
#           --real       --exec and --shell: the userland with real AI servers and clients at /real (vmtest/real.sh)
#           --smp N      processors of a guest (2, or 1 with a QEMU before 8.1)      --mem SIZE   its memory (1G, with --real 2G)
#           --jobs N     guests at a time (2, or half the processors)             --shards N   guests that share one kernel's cases (1)
#           --timeout S  for --exec (300)                  --proven     only what vmtest/proven lists, the rest is skipped
# Environment: SLOW=3 gives every case three times its time (by default the load of the host decides);
# ACCEL=kvm on a machine that has it; emulation is the default because it works everywhere.
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
build=${BUILD:-$top/build}
out=$build/vmtest

mode=cases proven='' command='' kernels='' cases='' add=() cgroup=unified real=''
accel=${ACCEL:-tcg,thread=multi}
smp="" mem="" jobs=${JOBS:-$(($(nproc) > 4 ? $(nproc) / 2 : 2))} shards=${SHARDS:-1} timeout=300
slow=${SLOW:-}

usage() { sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"; }

while [ $# -gt 0 ]; do
	case $1 in
	--kernel) kernels=$2 && shift ;;
	--case) cases=$2 && shift ;;
	--exec) mode=exec command=$2 && shift ;;
	--shell) mode=shell ;;
	--add) add+=("$2") && shift ;;
	--hybrid) cgroup=hybrid ;;
	--real) real=wanted ;;
	--smp) smp=$2 && shift ;;
	--mem) mem=$2 && shift ;;
	--jobs) jobs=$2 && shift ;;
	--shards) shards=$2 && shift ;;
	--timeout) timeout=$2 && shift ;;
	--proven) proven=1 ;;
	--list) mode=list ;;
	-h | --help) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
	shift
done

# QEMU before 8.1 lets one emulated processor run code that another is changing: kernels die of it.
qemu_can_smp() {
	local version
	version=$(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
	[ "${accel%%,*}" != tcg ] || [ $((${version% *} * 100 + ${version#* })) -ge 801 ]
}

all_kernels() { awk '!/^#/ && NF { print $1 }' "$here/kernels"; }

all_cases() {
	local file
	for file in "$here"/cases/*.py; do basename "$file" .py; done
}

# The names on stdin that match one of the globs in a comma list; an empty list means all.
select_names() { # LIST
	local name glob globs
	IFS=, read -r -a globs <<<"${1:-*}"
	while read -r name; do
		for glob in "${globs[@]}"; do
			# shellcheck disable=SC2053 # a glob is meant
			if [[ $name == $glob ]]; then echo "$name" && break; fi
		done
	done
}

# How long a case may take: its own line `# timeout: SECONDS`, or a minute; more on a busy host.
timeout_of() { # CASE
	local seconds
	seconds=$(sed -n 's/^# timeout: *\([0-9]\+\).*/\1/p' "$here/cases/$1.py" | head -1)
	echo $((${seconds:-60} * slow))
}

# By how much others slow this host down: processes that want a processor, our guests aside, for each processor.
busy_factor() {
	local load
	read -r load _ </proc/loadavg
	echo $((1 + ${load%.*} / $(nproc)))
}

# What changes from run to run: the guest's first file system, which init.sh leaves for the userland's disk.
pack_project() { # DIR CASES...
	local root=$1/root file
	local elf=()
	rm -rf "$root"
	mkdir -p "$root"/{bin,dev,proc,disk,chaos/build,chaos/add,chaos/lib/usr/lib}
	install "$(command -v busybox)" "$root/bin/busybox"
	ln -s usr/lib "$root/lib"
	ln -s usr/lib "$root/chaos/lib/lib"
	install -m 755 "$here/init.sh" "$root/init"
	for file in vmtest rules tools tests; do
		[ ! -d "$top/$file" ] || cp -r "$top/$file" "$root/chaos/"
	done
	if [ -d "$build" ]; then
		tar -C "$build" -c --exclude='./vmtest*' --exclude=./test-logs --exclude='*.[do]' --exclude='*.skel.h' . |
			tar -C "$root/chaos/build" -x
	fi
	for file in "${add[@]}"; do cp -r "$file" "$root/chaos/add/"; done
	# The host's CUDA runtime, if it has one, for the case that wants the real one.
	for file in /usr/local/cuda*/lib*/libcudart.so.[0-9]*; do
		mkdir -p "$root/chaos/cuda" && cp -L "$file" "$root/chaos/cuda/"
	done
	echo "$command" >"$root/chaos/command"
	printf '%s\n' "${@:2}" >"$root/chaos/cases.list"
	echo "${slow:-1}" >"$root/chaos/slow"
	while read -r file; do
		if [ "$(head -c4 "$file" | tail -c3)" = ELF ]; then elf+=("$file"); fi
	done < <(find "$root/chaos/build" "$root/chaos/add" -type f -perm -100)
	if [ ${#elf[@]} -gt 0 ]; then "$here/rootfs.sh" --libs-of "$root/chaos/lib" "${elf[@]}"; fi
	(cd "$root" && find . -mindepth 1 | cpio --quiet -o -H newc -R 0:0) >"$1/project.cpio"
	rm -rf "$root"
}

# Start a guest and wait for its end. The results file holds whatever it reported until then. No MSI-X (vectors=0): QEMU
# 10 has an assertion in its emulation that fails once in a while.
start_guest() { # KERNEL-DIR DIR SECONDS; what the guest prints goes to file descriptor 3
	local console=(-serial "file:$2/console.log") output=/dev/fd/3 version disk=() memory=1G
	version=$(basename "$1" | cut -d- -f1)
	if [ $mode = shell ]; then console=(-serial mon:stdio) output=$2/output; fi
	if [ -n "$real" ]; then
		memory=2G
		disk=(-drive "file=$real,format=raw,if=none,id=vdc,snapshot=on,cache=unsafe"
			-device "virtio-blk-pci,drive=vdc,vectors=0")
	fi
	: >"$2/results"
	timeout --foreground -k 5 "$3" qemu-system-x86_64 \
		-nodefaults -no-user-config -display none -no-reboot \
		-machine q35 -accel "$accel" -cpu max -smp "$smp" -m "${mem:-$memory}" \
		-kernel "$1/kernel" -initrd "$2/initrd" \
		-append "console=ttyS0 quiet loglevel=5 panic=-1 no_timer_check tsc=reliable mitigations=off \
cryptomgr.notests random.trust_cpu=on rcupdate.rcu_cpu_stall_timeout=120 rdinit=/init chaos.mode=$mode chaos.cgroup=$cgroup KERNEL=$version" \
		-drive "file=$rootfs,format=raw,if=none,id=vda,snapshot=on,cache=unsafe" \
		-drive "file=$1/modules.ext4,format=raw,if=none,id=vdb,readonly=on" \
		-device virtio-blk-pci,drive=vda,vectors=0 -device virtio-blk-pci,drive=vdb,vectors=0 "${disk[@]}" \
		"${console[@]}" -device virtio-serial-pci,vectors=0 \
		-chardev "file,id=results,path=$2/results" -device virtserialport,chardev=results,name=results \
		-chardev "file,id=output,path=$output" -device virtserialport,chardev=output,name=output \
		2>"$2/qemu.log" || { [ $? != 124 ] || echo "guest ended by force after $3 s" >>"$2/console.log"; }
}

# A guest that did not come as far as init.sh has not seen this project yet: the emulator's fault, so one more try.
boot() { # as start_guest
	cat "$1/boot.cpio" "$2/project.cpio" >"$2/initrd"
	rm -f "$2/project.cpio"
	start_guest "$@"
	if ! grep -q '^boot ' "$2/results" && [ $mode != shell ]; then
		mv "$2/console.log" "$2/console-first-try.log"
		echo "vmtest: kernel $(basename "$1" | cut -d- -f1) did not start: $(tail -1 "$2/qemu.log"); trying again" >&2
		start_guest "$@"
	fi
	rm -f "$2/initrd"
}

value_of() { sed -n "s/^$2 //p" "$1/results" | tail -1; }

run_command() { # KERNEL
	local dir kernel code
	dir=$(mktemp -d)
	# shellcheck disable=SC2064 # expand now
	trap "rm -rf '$dir'" EXIT
	kernel=$("$here/fetch-kernel.sh" "$1")
	rootfs=$("$here/rootfs.sh")
	[ -z "$real" ] || real=$("$here/real.sh")
	pack_project "$dir"
	if [ $mode = shell ]; then
		boot "$kernel" "$dir" 86400 3>/dev/null
	else
		# through a pipe: qemu would truncate a file
		boot "$kernel" "$dir" "$timeout" 3>&1 >&2 </dev/null | cat
	fi
	code=$(value_of "$dir" exit)
	if [ -z "$code" ]; then
		echo "vmtest: the guest did not finish; its console said:" >&2
		tail -q -n 30 "$dir/console.log" "$dir/qemu.log" >&2
		exit 125
	fi
	exit "$code"
}

# The results of one guest as final lines, prefixed with the kernel. Whatever a guest that died did not report is a
# failure: of the case that ran, and of each that had to wait for it.
report() { # KERNEL DIR CASES...
	local version=$1 dir=$2 name running
	shift 2
	sed -n "s/^\(ok\|not ok\|skip\) /\1 $version /p" "$dir/results"
	running=$(sed -n 's/^start //p' "$dir/results" | tail -1)
	for name; do
		if grep -q -e "^ok $name " -e "^not ok $name:" -e "^skip $name:" "$dir/results"; then continue; fi
		if [ "$name" = "$running" ]; then
			echo "not ok $version $name: the guest died or hung, see $dir/console.log"
		elif [ -z "$running" ]; then
			echo "not ok $version $name: the guest did not start, see $dir/console.log"
		else
			echo "not ok $version $name: not run, the guest ended in $running"
		fi
	done
	if splat=$(grep -v -i -E -f <(patterns allow) "$dir/console.log" | grep -m1 -i -P -f <(patterns deny | paste -sd'|')); then
		echo "not ok $version console: $splat"
	fi
}

patterns() { grep -v -e '^#' -e '^$' "$here/splats.$1" || true; }

# One log file for each case, cut from what the guest printed.
split_log() { # DIR LOG-DIR
	awk -v to="$2" '/^=== / { file = to "/" $2 ".log"; printf "" >file; next } file { print >>file }' "$1/output"
}

# What guests of that kind have and others have not.
settle() { # GUEST
	case $1 in
	hybrid) cgroup=hybrid ;;
	real) real=$("$here/real.sh") ;;
	turns-*) accel=${accel/thread=multi/thread=single} ;;
	esac
}

run_guest() { # KERNEL GUEST CASES...
	local version=$1 dir=$out/$1/guest-$2 limit=60 name kernel why
	mkdir -p "$dir"
	if ! kernel=$("$here/fetch-kernel.sh" "$version" 2>"$dir/fetch.log") || ! settle "$2" 2>"$dir/fetch.log"; then
		why=$(tail -1 "$dir/fetch.log")
		for name in "${@:3}"; do echo "skip $version $name: $why"; done
		return
	fi
	shift 2
	for name; do limit=$((limit + $(timeout_of "$name") + 5)); done
	pack_project "$dir" "$@"
	: >"$dir/output"
	boot "$kernel" "$dir" "$limit" 3>"$dir/output" </dev/null
	split_log "$dir" "$out/$version"
	report "$version" "$dir" "$@"
}

is_proven() { # KERNEL CASE
	awk -v kernel="$1" -v name="$2" '$1 == kernel { for (i = 2; i <= NF; i++) if ($i == name) found = 1 } END { exit !found }' \
		"$here/proven"
}

# A case says `# cgroup: hybrid` when it wants v1 hierarchies, and `# userland: real` when it wants real servers: such
# cases of a kernel share a guest of their own. One with `# guest: own` leaves it in a state that no other may meet, one with
# `# processors: in turn` needs instructions that are written to be those that are executed: with a thread for each processor
# QEMU now and then runs what was there before (seen in the page where the kernel steps over a probed instruction).
wants() { # CASE KEY VALUE
	grep -q "^# $2: *$3" "$here/cases/$1.py"
}

# The cases of one guest, and a skip for each that is not to run.
start_cases() { # KERNEL GUEST CASES...
	local version=$1 guest=$2 name part=()
	shift 2
	for name; do
		if [ -z "$proven" ] || is_proven "$version" "$name"; then
			part+=("$name")
		else
			echo "skip $version $name: left to make vmtest (vmtest/proven)" |
				tee -a "$out/results"
		fi
	done
	[ ${#part[@]} -gt 0 ] || return 0
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	run_guest "$version" "$guest" "${part[@]}" | tee -a "$out/results" &
}

run_cases() {
	local version names plain=() hybrid=() real_ones=() own=() turns=() name shard part i
	mapfile -t versions < <(all_kernels | select_names "$kernels")
	mapfile -t names < <(all_cases | select_names "$cases")
	[ ${#versions[@]} -gt 0 ] || { echo "vmtest: no kernel named '$kernels'; see --list" >&2 && exit 2; }
	[ ${#names[@]} -gt 0 ] || { echo "vmtest: no case named '$cases'; see --list" >&2 && exit 2; }
	for name in "${names[@]}"; do
		if wants "$name" cgroup hybrid; then
			hybrid+=("$name")
		elif wants "$name" userland real; then
			real_ones+=("$name")
		elif wants "$name" guest own; then
			own+=("$name")
		elif wants "$name" processors "in turn"; then
			turns+=("$name")
		else
			plain+=("$name")
		fi
	done
	rootfs=$("$here/rootfs.sh")
	slow=${slow:-$(busy_factor)}
	[ "$slow" = 1 ] || echo "vmtest: the host is busy, every case may take $slow times as long"
	mkdir -p "$out"
	exec 9>"$out/lock"
	if ! flock -n 9; then
		out=$out-$$
		echo "vmtest: another run is using build/vmtest; this one's logs are in $out"
		mkdir -p "$out"
	fi
	: >"$out/results"
	for version in "${versions[@]}"; do
		rm -rf "${out:?}/$version"
		mkdir -p "$out/$version"
		for ((shard = 0; shard < shards; shard++)); do
			part=()
			for ((i = shard; i < ${#plain[@]}; i += shards)); do part+=("${plain[i]}"); done
			start_cases "$version" "$shard" "${part[@]}"
		done
		start_cases "$version" hybrid "${hybrid[@]}"
		start_cases "$version" real "${real_ones[@]}"
		for name in "${own[@]}"; do start_cases "$version" "of-$name" "$name"; done
		for name in "${turns[@]}"; do start_cases "$version" "turns-$name" "$name"; done
	done
	wait
	summary "$((${#versions[@]} * ${#names[@]}))"
}

summary() { # EXPECTED
	local passed failed skipped
	passed=$(grep -c '^ok ' "$out/results" || true)
	failed=$(grep -c '^not ok ' "$out/results" || true)
	skipped=$(grep -c '^skip ' "$out/results" || true)
	echo "vmtest: $passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ] && [ $((passed + skipped)) -ge "$1" ]
}

if [ $mode != list ] && [ -z "$smp" ]; then
	if qemu_can_smp; then smp=2; else smp=1; fi
fi

case $mode in
list)
	all_kernels
	all_cases
	exit 0
	;;
exec | shell)
	run_command "${kernels:-6.1}"
	;;
cases)
	run_cases
	;;
esac
