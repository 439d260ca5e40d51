#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the transcripts in this directory: tests/cli/run.sh [FILE.t...]
#
# A transcript is prose with a terminal session in it. Lines that begin with two blanks are the session: "  $ " begins
# a command, "  > " goes on with it, the rest is what it prints (both streams). "  [N]" is its exit code when not 0.
# Every command runs in a directory of the transcript's own, without root, with build/chaosbpf (or $CHAOSBPF) as
# `chaosbpf`. The session that really happened must equal the file; KEEP=1 writes it there instead.

set -u
here=$(cd "$(dirname "$0")" && pwd)
program=${CHAOSBPF:-$here/../../build/chaosbpf}
[ -x "$program" ] || { echo "not ok cli: no program at $program"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cp "$program" "$work/bin/chaosbpf"
chmod 755 "$work" "$work/bin" "$work/bin/chaosbpf"
# Where a program in a build directory finds the presets of its source tree.
install -D -m 644 "$here/../../rules/presets/endpoints.yaml" "$work/rules/presets/endpoints.yaml"
chmod 755 "$work/rules" "$work/rules/presets"
# A database of findings, as SQL: ../data/findings-1.sql for a transcript.
install -D -m 644 "$here/../data/findings-1.sql" "$work/data/findings-1.sql"
chmod 755 "$work/data"

# Root would make commands succeed that must say no here.
unprivileged=()
[ "$(id -u)" != 0 ] || unprivileged=(setpriv --reuid 65534 --regid 65534 --clear-groups)

# run_command DIRECTORY COMMAND: prints what the command prints, indented (but for blank lines), and its exit code.
run_command() {
	local code=0

	(cd "$1" && env -i PATH="$work/bin:/usr/bin:/bin" HOME="$1" LC_ALL=C.UTF-8 TZ=UTC TMPDIR="$1" \
		"${unprivileged[@]}" timeout 20 bash -c "$2" </dev/null) >"$work/output" 2>&1 || code=$?
	sed 's/^\(.\)/  \1/' "$work/output"
	[ -z "$(tail -c 1 "$work/output")" ] || echo
	[ "$code" = 0 ] || echo "  [$code]"
}

# replay FILE DIRECTORY: the transcript with what the commands print now. Blank lines wait until it is known whether the
# output goes on after them or the prose.
replay() {
	local line command='' blanks='' state=prose

	while IFS= read -r line; do
		if [ "$state" = command ] && [ "${line#'  > '}" = "$line" ]; then
			run_command "$2" "$command"
			state=output
		fi
		case $line in
		'  $ '*)
			command=${line#'  $ '}
			state='command'
			printf '%s%s\n' "$blanks" "$line"
			blanks=''
			;;
		'  > '*)
			command+=$'\n'${line#'  > '}
			echo "$line"
			;;
		'  '*) # what was printed when the transcript was written
			blanks=''
			;;
		'')
			blanks+=$'\n'
			;;
		*)
			state=prose
			printf '%s%s\n' "$blanks" "$line"
			blanks=''
			;;
		esac
	done <"$1"
	[ "$state" != command ] || run_command "$2" "$command"
}

failed=0
[ $# -gt 0 ] || set -- "$here"/*.t
for file; do
	name=cli/$(basename "$file" .t)
	mkdir "$work/dir"
	chmod 777 "$work/dir"
	replay "$file" "$work/dir" >"$work/actual"
	if [ -n "${KEEP:-}" ]; then
		cat "$work/actual" >"$file"
	elif diff -u "$file" "$work/actual" >"$work/diff"; then
		echo "ok $name"
	else
		echo "not ok $name: the session differs (- expected, + actual)"
		sed 1,2d "$work/diff"
		failed=1
	fi
	rm -rf "$work/dir"
done
exit $failed
