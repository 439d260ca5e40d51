# shellcheck shell=bash
# Debian's packages without touching this machine's apt: what fetch-kernel.sh and real.sh share.
#
# apt does the work with a configuration of its own, so the machine's apt, its lists and its packages are not touched.
# The mirror is the one the machine's apt uses; CHAOSBPF_DEBIAN_MIRROR overrides it.

unavailable() { echo "$*" >&2; exit 77; }

# The sites that apt already uses on this machine, the one with the wanted release first.
site_of() { # CODENAME-PATTERN
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(SITE) $(CODENAME)' 2>/dev/null |
		awk -v want="$1" '$2 ~ want && !($2 ~ /security/) == !(want ~ /security/) { print $1; exit }'
}

debian_site() {
	if [ -n "${CHAOSBPF_DEBIAN_MIRROR:-}" ]; then
		echo "$CHAOSBPF_DEBIAN_MIRROR"
		return
	fi
	site_of '^(bullseye|bookworm|trixie|forky|sid)'
}

# Debian's security archive lies beside the main one, but not on every mirror.
security_site() {
	local site
	if [ -n "${CHAOSBPF_DEBIAN_MIRROR:-}" ]; then
		echo "${CHAOSBPF_DEBIAN_MIRROR%/}-security"
		return
	fi
	site=$(site_of '^(bullseye|bookworm|trixie|forky)-security')
	echo "${site:-$(debian_site | sed 's,/*$,-security,')}"
}

keyring() {
	local ring
	for ring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
		if [ -e "$ring" ]; then
			echo "$ring"
			return
		fi
	done
	return 1
}

# Old releases stop being re-signed, so their Release files may have expired: that is expected here.
write_apt_conf() { # DIR SUITE...
	local dir=$1 suite site ring main security
	shift
	ring=$(keyring) || unavailable "no Debian archive keyring: install debian-archive-keyring"
	main=$(debian_site)
	[ -n "$main" ] || unavailable "apt uses no Debian mirror here: set CHAOSBPF_DEBIAN_MIRROR=URL"
	security=$(security_site)
	mkdir -p "$dir/lists/partial" "$dir/archives/partial"
	: >"$dir/sources.list"
	for suite in "$@"; do
		case $suite in
		*-security) site=$security ;;
		*) site=$main ;;
		esac
		echo "deb [arch=amd64 signed-by=$ring] $site $suite main" >>"$dir/sources.list"
	done
	cat >"$dir/apt.conf" <<-EOF
		Dir::Etc::SourceList "$dir/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::Etc::Preferences "/dev/null";
		Dir::Etc::PreferencesParts "/dev/null";
		Dir::State::Lists "$dir/lists";
		Dir::State::Status "/dev/null";
		Dir::Cache "$dir";
		APT::Architecture "amd64";
		APT::Architectures "amd64";
		APT::Sandbox::User "";
		Acquire::Languages "none";
		Acquire::Check-Valid-Until "false";
		Acquire::Retries "3";
		Acquire::http::Timeout "30";
	EOF
}

unpack_deb() { # DEB TREE TAR-OPTION...
	dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner "${@:3}"
}

# A disk image with the contents of a folder, without a journal: guests write to a snapshot of it.
make_disk() { # FOLDER OUT
	local kilobytes
	kilobytes=$(du -sk "$1" | cut -f1)
	mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$1" "$2" $((kilobytes * 5 / 4 + 4096))k >/dev/null
}
