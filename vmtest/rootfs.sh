#!/bin/bash
# Build the guest's userland from this machine's own files, once, and print the path of the disk image.
#
# Nothing is downloaded: programs are copied together with the libraries that ldd names. The image is kept in the
# cache under a hash of everything that went in. Guests run on a snapshot of it.
#
#   rootfs.sh                           the userland
#   rootfs.sh --libs-of ROOT FILE...    copy what these ELF files need and the userland lacks into ROOT
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "$0")" && pwd)
cache=${CHAOSBPF_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/chaosbpf}
export PATH=/usr/sbin:/usr/bin:/sbin:/bin # not what a version manager puts in front

# Without one of these there is no guest. Busybox's own env, timeout, setsid and their like would run busybox applets
# instead of the programs they are given, so those that start others are the real ones.
required="busybox dash bash python3 ip tc ss bpftool curl openssl kmod
	env timeout nice nohup chroot setsid xargs unshare nsenter setpriv taskset flock"
optional="ethtool strace nft redis-server redis-cli
	sleep date stat dd head tail sort seq tee nproc id mount umount mountpoint dmesg pgrep ps"

# Parts of Python's standard library that no case uses.
python_without=(test idlelib tkinter turtledemo lib2to3 ensurepip pydoc_data distutils sqlite3 venv curses dbm
	'config-*' 'lib-dynload/_sqlite3*' 'lib-dynload/_dbm*' 'lib-dynload/_curses*' 'lib-dynload/_tkinter*'
	'lib-dynload/_test*')

# Ubuntu's bpftool is a script that looks for one of the running kernel's version.
program() { # NAME: its path
	if [ "$1" = bpftool ] && ! bpftool version >/dev/null 2>&1; then
		local all=(/usr/lib/linux-tools*/*/bpftool)
		[ ${#all[@]} -gt 0 ] && echo "${all[-1]}"
	else
		command -v "$1"
	fi
}

libraries_of() { # FILE...
	{ ldd "$@" 2>/dev/null || true; } | # fails on what is static or a script
		awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\/.*\.so/ && $1 !~ /:$/ { print $1 }' | sort -u
}

copy_libraries() { # ROOT FILE...
	local root=$1 lib
	shift
	libraries_of "$@" | while read -r lib; do
		[ -e "$root$lib" ] || { [ -n "${have:-}" ] && grep -qxF "$lib" "$have"; } || install -D -m 755 "$lib" "$root$lib"
	done
}

# As on Debian: /bin and its like are links into /usr.
make_tree() { # ROOT
	local dir
	for dir in bin sbin lib lib64; do
		mkdir -p "$1/usr/$dir"
		ln -sfn "usr/$dir" "$1/$dir"
	done
	mkdir -p "$1"/{usr/lib/modules,etc,dev,proc,sys,run,tmp,root,mnt,chaos,var/tmp,var/lib}
	ln -s /run "$1/var/run"
}

paths=() missing=
for name in $required; do
	if path=$(program "$name"); then paths+=("$path"); else missing+=" $name"; fi
done
if [ -n "$missing" ]; then
	echo "cannot build the guest, missing:$missing (run tools/install-deps)" >&2
	exit 77
fi
for name in $optional; do
	if path=$(program "$name"); then paths+=("$path"); fi
done
pylib=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
pymodules=(/usr/lib/python3/dist-packages/{redis,async_timeout,packaging,deprecated,wrapt,grpc,six}{,.py})

key=$({
	stat -L -c '%n %s %Y' "${paths[@]}" "$pylib" "${pymodules[@]}" 2>/dev/null || true
	cat "$here/rootfs.sh"
} | sha256sum | cut -c1-16)
out=$cache/rootfs/$key.ext4
mkdir -p "$cache/rootfs"
if [ "${1:-}" = --libs-of ]; then
	have=${out%.ext4}.libs
	copy_libraries "${@:2}"
	exit 0
fi
exec 9>"$cache/rootfs/lock"
flock 9
if [ -e "$out" ]; then
	echo "$out"
	exit 0
fi

work=$(mktemp -d "$cache/rootfs/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
make_tree "$root"

for path in "${paths[@]}"; do
	case $path in
	*/bpftool) install -D -m 755 "$path" "$root/usr/sbin/bpftool" ;;
	*) install -D -m 755 "$path" "$root$path" ;;
	esac
done
# Real programs win over applets of the same name.
busybox --list | while read -r applet; do
	[ -e "$root/bin/$applet" ] || [ -e "$root/sbin/$applet" ] || ln -s busybox "$root/bin/$applet"
done
ln -sfn dash "$root/bin/sh"
for name in modprobe insmod rmmod lsmod modinfo depmod; do
	rm -f "$root/bin/$name"
	ln -sfn ../bin/kmod "$root/sbin/$name"
done

without=()
for name in "${python_without[@]}"; do
	without+=("--exclude=./$name")
done
mkdir -p "$root$pylib"
tar -C "$pylib" -c "${without[@]}" --exclude='*.opt-[12].pyc' . | tar -C "$root$pylib" -x
for path in "${pymodules[@]}"; do
	[ ! -e "$path" ] || cp -r --parents "$path" "$root"
done
copy_libraries "$root" "${paths[@]}" "$root$pylib"/lib-dynload/*.so /usr/lib/python3/dist-packages/grpc/_cython/*.so

cp /etc/protocols /etc/services "$root/etc/" 2>/dev/null || true
install -D /etc/ssl/openssl.cnf "$root/usr/lib/ssl/openssl.cnf"
printf 'root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nwww-data:x:33:\nuser:x:1000:\nnogroup:x:65534:\n' >"$root/etc/group"
printf '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 guest\n' >"$root/etc/hosts"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
: >"$root/etc/resolv.conf"
ldconfig -r "$root"

mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$root" "$work/image" $(($(du -sk "$root" | cut -f1) + 262144))k >/dev/null
(cd "$root" && find -L lib usr/lib -type f | sed 's,^,/,') >"${out%.ext4}.libs"
find "$cache/rootfs" -name "*.ext4" -delete
mv "$work/image" "$out"
echo "$out"
