#!/bin/bash
# Build the userland with real AI servers and their clients, once, and print the path of its disk image.
#
# A model server, vector databases, a cache and the SDKs that talk to them are far newer than what most machines have, so
# they are a tree of their own: Debian packages (vmtest/real/packages) and npm packages (vmtest/real/package-lock.json),
# unpacked and not installed; no script of theirs runs. Guests see it at /real and change root into it. The image is kept
# in the cache under a hash of everything that it is made of; which versions Debian had that day is in its /versions.
# Exit codes: 0 done, 77 it cannot be had here (the reason is on stderr, in one line).
set -euo pipefail
shopt -s nullglob

export PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd)
cache=${CHAOSBPF_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/chaosbpf}
suite=sid      # the only one with a model server
patience=600   # seconds for each of the downloads
most=600       # megabytes of the image

# shellcheck source=vmtest/debian.sh
. "$here/debian.sh"

# What nobody reads in a guest.
without=(--exclude='./usr/share/'{doc,man,info,locale,lintian,bug,bash-completion,zsh,fish,perl5,icons,pixmaps,applications}
	--exclude='./usr/share/i18n' --exclude='./usr/include' --exclude='./usr/lib/systemd' --exclude='./usr/share/gcc*'
	--exclude='./usr/lib/*/gconv' --exclude='./usr/lib/postgresql/*/lib/bitcode' --exclude='./usr/lib/python3*/test'
	--exclude='./usr/share/python3/runtime.d' --exclude='./usr/share/postgresql/*/man' --exclude='./usr/lib/valgrind')

names() { sed 's/#.*//' "$here/real/packages" | tr -s ' \t' '\n' | grep . ; }

# All that apt would install, less what is not wanted.
packages() {
	local globs=() wanted=() name glob
	while read -r name; do
		case $name in
		-*) globs+=("${name#-}") ;;
		*) wanted+=("$name") ;;
		esac
	done < <(names)
	apt-get -qq -o Debug::NoLocking=1 -o APT::Install-Recommends=0 -s install "${wanted[@]}" |
		awk '$1 == "Inst" { print $2 }' | while read -r name; do
		for glob in "${globs[@]}"; do
			# shellcheck disable=SC2053 # a glob is meant
			if [[ $name == $glob ]]; then continue 2; fi
		done
		echo "$name"
	done
}

make_tree() { # ROOT
	local dir
	mkdir -p "$1"/usr/{bin,sbin,lib,lib64} "$1"/{etc,dev,proc,sys,run,root,chaos,opt/npm,var/lib,var/tmp}
	for dir in bin sbin lib lib64; do ln -sfn "usr/$dir" "$1/$dir"; done
	mkdir -m 1777 "$1/tmp"
	printf '%s:/bin/sh\n' root:x:0:0:root:/root postgres:x:100:100::/var/lib nobody:x:65534:65534::/ >"$1/etc/passwd"
	printf 'root:x:0:\npostgres:x:100:\nnogroup:x:65534:\n' >"$1/etc/group"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$1/etc/hosts"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$1/etc/nsswitch.conf"
	: >"$1/etc/resolv.conf"
}

fetch_debs() { # DIR
	local list
	write_apt_conf "$1" "$suite"
	export APT_CONFIG=$1/apt.conf
	timeout 120 apt-get -qq update >"$1/log" 2>&1 || true
	list=$(packages 2>>"$1/log") || list=
	[ -n "$list" ] ||
		unavailable "Debian's $suite cannot give the real servers today: $(grep -h -m1 '^[EW]:' "$1/log" || tail -1 "$1/log")"
	mkdir "$1/debs"
	# shellcheck disable=SC2086 # a list of words
	(cd "$1/debs" && timeout "$patience" apt-get -qq download $list) >"$1/log" 2>&1 ||
		unavailable "cannot download the real servers: $(grep -m1 '^E:' "$1/log" || tail -1 "$1/log")"
}

# The lock file holds versions and hashes, but no address: the registry is the one npm is configured for.
fetch_npm() { # DIR
	local dir=$1/npm
	mkdir "$dir"
	cp "$here"/real/package{,-lock}.json "$dir/"
	(cd "$dir" && timeout "$patience" npm ci --ignore-scripts --omit=dev --no-audit --no-fund --os=linux --cpu=x64 --libc=glibc \
		--cache="$1/npm-cache") >"$1/log" 2>&1 ||
		unavailable "cannot download the real clients: $(grep -m1 -E '^npm (ERR!|error)' "$1/log" || tail -1 "$1/log")"
	find "$dir" -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.md' \) -delete
}

fill() { # ROOT DIR
	local deb
	for deb in "$2"/debs/*.deb; do unpack_deb "$deb" "$1" "${without[@]}"; done
	cp -r "$2/npm/node_modules" "$1/opt/npm/"
	mkdir -p "$1/usr/local/bin"
	busybox_applets "$1"
	python3 "$here/real/tiny_model.py" "$1/opt/tiny.gguf"
	cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"
	(cd "$2/debs" && printf '%s\n' *.deb) >"$1/versions"
	chmod -R u+rwX "$1"
	ldconfig -r "$1"
}

# The shell and small tools that initdb and scripts ask for.
busybox_applets() { # ROOT
	local name
	for name in sh cat echo ls cp mv rm mkdir chmod chown sleep env id ps kill grep sed head tail mount umount; do
		[ -e "$1/usr/bin/$name" ] || ln -s busybox "$1/usr/bin/$name"
	done
}

key=$(cat "$here/real.sh" "$here"/real/{packages,package.json,package-lock.json,tiny_model.py} | sha256sum | cut -c1-16)
out=$cache/real/$key.ext4
mkdir -p "$cache/real"
exec 9>"$cache/real/lock"
flock 9
if [ -e "$out" ]; then
	echo "$out"
	exit 0
fi
for tool in apt-get dpkg-deb npm mke2fs ldconfig python3; do
	command -v "$tool" >/dev/null || unavailable "the userland with real servers needs $tool to be made"
done

work=$(mktemp -d "$cache/real/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
fetch_debs "$work"
fetch_npm "$work"
make_tree "$work/root"
fill "$work/root" "$work"
size=$(du -sm "$work/root" | cut -f1)
[ "$size" -le "$most" ] || unavailable "the userland with real servers has grown to $size MB, more than $most"
make_disk "$work/root" "$work/image"
find "$cache/real" -name '*.ext4' -delete
mv "$work/image" "$out"
echo "$out"
