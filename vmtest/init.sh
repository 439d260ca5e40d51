#!/bin/busybox sh
# shellcheck shell=dash
# First process of the guest: set the machine up, do what the kernel command line asks for, switch off.
#
# It runs twice: in the first file system, which holds busybox and the project, and once more from the disk with the
# userland (/dev/vda); a second disk has the kernel's modules, and a third, in some guests, real servers (real.sh).
# Busybox's shell prefers its own applets: that saves two seconds, because the first run of any other program is slow on
# an emulated CPU.
#
#   chaos.mode=cases    run the cases of /chaos/cases.list      (vmtest/runner.py)
#   chaos.mode=exec     run /chaos/command, report its exit code
#   chaos.mode=shell    a shell on the console
#   chaos.cgroup=hybrid cgroup v1 hierarchies with cgroup2 beside them, as old systems have it
#
# Two virtio ports lead to the host: 'results' for one line per event, 'output' for what programs print.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export CHAOSBPF=/chaos/build/chaosbpf PYTHONPATH=/chaos/vmtest/lib

param() { # NAME DEFAULT
	local word
	# shellcheck disable=SC2013 # words are wanted
	for word in $(cat /proc/cmdline); do
		case $word in "$1="*) echo "${word#*=}" && return ;; esac
	done
	echo "$2"
}

mount_v1() { # NAME CONTROLLERS
	mkdir -p "/sys/fs/cgroup/$1"
	mount -t cgroup -o "$2" cgroup "/sys/fs/cgroup/$1" || rmdir "/sys/fs/cgroup/$1" # newer kernels lack memory
}

mount_cgroups() {
	if [ "$(param chaos.cgroup unified)" = hybrid ]; then
		mount -t tmpfs tmpfs /sys/fs/cgroup
		mount_v1 net_cls,net_prio net_cls,net_prio
		mount_v1 cpu,cpuacct cpu,cpuacct
		mount_v1 memory memory
		mount_v1 pids pids
		mount_v1 systemd none,name=systemd
		mkdir /sys/fs/cgroup/unified
		mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
	else
		mount -t cgroup2 cgroup2 /sys/fs/cgroup
	fi
}

mount_all() {
	mount -t proc proc /proc
	mount -t sysfs sysfs /sys
	mount -t devtmpfs devtmpfs /dev 2>/dev/null
	mkdir -p /dev/pts /dev/shm
	mount -t devpts devpts /dev/pts
	mount -t tmpfs tmpfs /dev/shm
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /tmp
	chmod 1777 /tmp
	mount -t bpf bpf /sys/fs/bpf
	mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
	mount -t tracefs tracefs /sys/kernel/tracing
	mount -t debugfs debugfs /sys/kernel/debug
	mkdir -p /run/lock /run/netns
	ln -sfn /proc/self/fd /dev/fd
	ln -sfn fd/0 /dev/stdin && ln -sfn fd/1 /dev/stdout && ln -sfn fd/2 /dev/stderr
}

# The disk with the second userland, if there is one: for chroot, with what programs expect to find. What they write
# goes to QEMU's snapshot of the disk.
mount_real() {
	[ -e /dev/vdc ] || return
	mkdir -p /real
	mount -t ext4 /dev/vdc /real
	for dir in proc sys dev chaos; do mount --rbind "/$dir" "/real/$dir"; done
	mount -t tmpfs tmpfs /real/tmp
	chmod 1777 /real/tmp
}

port() { # NAME: the device of that virtio port
	local dir
	for dir in /sys/class/virtio-ports/*; do
		if [ "$(cat "$dir/name" 2>/dev/null)" = "$1" ]; then
			echo "/dev/${dir##*/}"
			return
		fi
	done
	echo "no virtio port '$1'" >&2
	echo /dev/console
}

change_to_disk() { # no /proc yet, so applets must be called by their path
	/bin/busybox mount -t proc proc /proc
	/bin/busybox mount -t devtmpfs devtmpfs /dev
	/bin/busybox modprobe -a virtio_pci virtio_blk ext4
	/bin/busybox mount -t ext4 /dev/vda /disk
	/bin/busybox mount -t ext4 -o ro /dev/vdb /disk/usr/lib/modules
	/bin/busybox mount --bind /chaos /disk/chaos
	/bin/busybox umount /proc
	cd /disk || exit
	/bin/busybox mount --move . /
	exec /bin/busybox chroot . /bin/busybox sh /chaos/vmtest/init.sh
}
[ ! -d /disk ] || change_to_disk

mount_all
mount_cgroups
mount_real
hostname guest
modprobe virtio_console
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
ulimit -n 65536

# Ports appear a moment after the driver.
tries=50
while [ ! -e "/sys/class/virtio-ports" ] || [ "$(cat /sys/class/virtio-ports/*/name 2>/dev/null | wc -l)" -lt 2 ]; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || break
	sleep 0.05
done
results=$(port results)
output=$(port output)

cp -r /chaos/lib/usr/. /usr/ # libraries of the project that the userland lacks
cd /chaos || exit
echo "boot $(uname -r)" >"$results"
case $(param chaos.mode cases) in
exec)
	setsid dash /chaos/command </dev/null >"$output" 2>&1
	echo "exit $?" >"$results"
	;;
shell)
	setsid cttyhack /bin/dash -i </dev/console >/dev/console 2>&1
	echo "exit 0" >"$results"
	;;
cases)
	python3 /chaos/vmtest/runner.py "$results" >"$output" 2>&1
	echo "exit $?" >"$results"
	;;
esac
poweroff -f
sleep 60
