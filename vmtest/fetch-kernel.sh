#!/bin/bash
# Get one of Debian's cloud kernels into the cache and print the folder it lies in.
#
#   fetch-kernel.sh VERSION          for example 6.1
#
# The folder holds kernel, boot.cpio (the modules that are needed to find the disks), modules.ext4 (a disk with those that
# vmtest/modules names) and release (as `uname -r`).
# apt does the work with a configuration of its own, so the machine's apt, its lists and its packages are not
# touched. The mirror is the one the machine's apt uses; CHAOSBPF_DEBIAN_MIRROR overrides it.
# Exit codes: 0 done, 77 this kernel cannot be had here (the reason is on stderr).
set -euo pipefail
shopt -s nullglob

PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd)
cache=${CHAOSBPF_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/chaosbpf}

# shellcheck source=vmtest/debian.sh
. "$here/debian.sh"

# A meta package has no kernel in it, so a full release number is asked for. The unsigned packages hold the same
# kernels, and the backports that call themselves debNN belong to another release.
newest_image() { # VERSION
	apt-cache pkgnames "linux-image-$1" | grep -E "^linux-image-${1//./\\.}\.[0-9].*-cloud-amd64$" |
		grep -v '\.deb[0-9]*\.' | sort -V | tail -1
}

# From 6.19 on the image and the modules (and modules.builtin) are packages of their own that linux-image depends on.
parts_of() { # PACKAGE
	echo "$1"
	apt-cache depends --important "$1" | awk '$1 == "Depends:" && $2 ~ /^linux-(base|binary|modules)-[0-9]/ { print $2 }'
}

# Keep the wanted modules and what they need, uncompressed: the guest's CPU is emulated and slow.
pick_modules() { # TREE RELEASE NEWTREE, names on stdin
	local tree=$1 release=$2 new=$3/usr/lib/modules/$2 name file to
	mkdir -p "$new"
	ln -sfn usr/lib "$3/lib"
	depmod -b "$tree" "$release"
	tr -s ' ' '\n' | while read -r name; do
		modprobe -d "$tree" -S "$release" --show-depends "$name" 2>/dev/null | awk '$1 == "insmod" { print $2 }' || true
	done | sort -u | while read -r file; do
		to=$new/${file#*"/modules/$release/"}
		mkdir -p "$(dirname "$to")"
		case $file in
		*.xz) xz -dc "$file" >"${to%.xz}" ;;
		*.zst) zstd -qdc "$file" >"${to%.zst}" ;;
		*) cp "$file" "$to" ;;
		esac
	done
	cp "$tree/lib/modules/$release"/modules.{order,builtin*} "$new/"
	depmod -b "$3" "$release"
	rm "$3/lib"
}

# A kernel compressed with zstd takes the emulated CPU two seconds to unpack: do that here. QEMU starts the plain image
# by its PVH entry. Where the payload is of another kind the kernel stays as it is.
unpack_kernel() { # VMLINUZ OUT
	python3 - "$1" <<-'EOF' | zstd -qdc >"$2" 2>/dev/null || cp "$1" "$2"
		import struct, sys
		image = open(sys.argv[1], "rb").read()
		setup = (image[0x1f1] + 1) * 512
		offset, length = struct.unpack_from("<II", image, 0x248)
		sys.stdout.buffer.write(image[setup + offset : setup + offset + length])
	EOF
}

unpack() { # DIR-WITH-DEBS OUT
	local tree=$1/tree new=$1/new boot=$1/boot deb image release
	mkdir -p "$tree/usr/lib" "$2"
	ln -sfn usr/lib "$tree/lib"
	for deb in "$1"/*.deb; do unpack_deb "$deb" "$tree"; done
	image=$(find "$tree" -name 'vmlinuz*' -type f -print -quit)
	[ -n "$image" ] || unavailable "no vmlinuz in $(basename -a "$1"/*.deb | tr '\n' ' ')"
	release=$(basename "$(echo "$tree"/usr/lib/modules/*)")
	sed 's/#.*//' "$here/modules" | pick_modules "$tree" "$release" "$new"
	echo virtio_pci virtio_blk ext4 | pick_modules "$tree" "$release" "$boot"
	make_disk "$new/usr/lib/modules" "$2/modules.ext4"
	(cd "$boot" && find usr | cpio --quiet -o -H newc -R 0:0) >"$2/boot.cpio"
	unpack_kernel "$image" "$2/kernel"
	echo "$release" >"$2/release"
}

version=${1:?usage: fetch-kernel.sh VERSION}
suites=$(awk -v v="$version" '$1 == v { $1 = ""; print }' "$here/kernels")
[ -n "$suites" ] || unavailable "kernel $version is not in vmtest/kernels"

key=$(sha256sum <"$here/modules" | cut -c1-8)-2 # raise the last number when the folder's contents change
out=$cache/kernels/$version-$key
mkdir -p "$cache/kernels"
exec 9>"$cache/kernels/lock-$version"
flock 9
if [ -e "$out/release" ]; then
	echo "$out"
	exit 0
fi
for tool in apt-get dpkg-deb depmod modprobe mke2fs cpio xz zstd; do
	command -v "$tool" >/dev/null || unavailable "$tool is missing: run tools/install-deps"
done

work=$(mktemp -d "$cache/kernels/fetch-$version.XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086 # a list of words
write_apt_conf "$work" $suites
export APT_CONFIG=$work/apt.conf
apt-get -qq update >"$work/log" 2>&1 || true # one suite of several may be gone; what counts is the package
image=$(newest_image "$version")
[ -n "$image" ] || unavailable "no linux-image-$version*-cloud-amd64 in: $suites $(grep '^E:' "$work/log" | head -1)"
echo "fetching $image" >&2
# shellcheck disable=SC2046 # a list of words
(cd "$work" && apt-get -qq download $(parts_of "$image")) >"$work/log" 2>&1 ||
	unavailable "cannot download $image: $(grep '^E:' "$work/log" | head -1)"
unpack "$work" "$work/out"
rm -rf "$cache/kernels/$version-"*
mv "$work/out" "$out"
echo "$out"
