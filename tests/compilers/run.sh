#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the BPF programs with another clang than the default one and loads them: tests/compilers/run.sh
#
# The verifier judges what the compiler made. What one clang makes is loaded by the other tests; here it is what each other
# `clang-N` on PATH makes, or those of $OTHER_CLANGS (paths, separated by blanks). Everything goes to build-san/ with the
# compiler's name; the user side is taken from build-san/, but for what holds the programs. `make check-bpf` calls this.
set -euo pipefail
shopt -s nullglob

cd "$(dirname "$0")/../.."
default=${CLANG:-clang}
build=${BUILD:-build-san}

[ "$(id -u)" = 0 ] || { echo 'skip compilers: needs root'; exit 0; }

version_of() { "$1" -dumpversion 2>/dev/null | cut -d. -f1; }

# The newest clang of each version that is not the default one's.
others() {
	local dir file version seen candidates=()

	seen=" $(version_of "$default") "
	if [ -n "${OTHER_CLANGS:-}" ]; then
		read -r -a candidates <<<"$OTHER_CLANGS"
	else
		while IFS= read -r -d : dir; do
			for file in "$dir"/clang-[0-9]*; do
				if [[ ${file##*/} =~ ^clang-[0-9]+$ ]]; then candidates+=("$file"); fi
			done
		done <<<"$PATH:"
	fi
	for file in "${candidates[@]}"; do
		version=$(version_of "$file")
		if [ -n "$version" ] && [[ $seen != *" $version "* ]]; then
			seen+="$version "
			echo "$version $file"
		fi
	done
}

failed=0 found=no
while read -r version clang; do
	found=yes
	log=$build/clang-$version.log
	if ! make --no-print-directory SANITIZE=1 BUILD="$build/clang-$version" REST="$build" CLANG="$clang" \
		"$build/clang-$version/loads" >"$log" 2>&1; then
		echo "not ok compilers/clang-$version: bpf/ cannot be built, see $log"
		failed=1
	elif ! CRITERION_VERBOSITY_LEVEL=1 "$build/clang-$version/loads" -j1 >>"$log" 2>&1; then
		grep -E '^\[FAIL\]|^\[----\]|^\[CRASH\]|prog |[Tt]oo |invalid' "$log" | head -20 || true
		echo "not ok compilers/clang-$version: what it makes of bpf/ is not loaded, see $log"
		failed=1
	elif grep -q '^\[SKIP\]' "$log"; then
		sed -n 's/^\[SKIP\] \(.*\)/skip compilers: \1/p' "$log" | head -1
	else
		echo "ok compilers/clang-$version"
	fi
done < <(others)
[ $found = yes ] || echo "skip compilers: no other clang-N here than $(version_of "$default"), the default"
exit $failed
