# SPDX-License-Identifier: GPL-2.0-only
# Completion of chaosbpf for bash.

_chaosbpf_words() {
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_chaosbpf_files() {
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -f -X '!*.y*ml' -- "$1"; compgen -d -- "$1")
}

# The values of an option; 1 when it takes none that could be known.
_chaosbpf_value() {
	case $1 in
	--protocol) _chaosbpf_words 'tcp udp' "$2" ;;
	--side) _chaosbpf_words 'client server' "$2" ;;
	--by) _chaosbpf_words 'connection process cgroup endpoint' "$2" ;;
	--direction) _chaosbpf_words 'request response both' "$2" ;;
	--per) _chaosbpf_words 'connection packet request' "$2" ;;
	--user) mapfile -t COMPREPLY < <(compgen -u -- "$2") ;;
	--pid) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$2") ;;
	--duration | --for | --interval | --baseline | --each | --gap | --delay) _chaosbpf_words '30s 5m 1h' "$2" ;;
	--endpoints | --policy | --webhooks) _chaosbpf_files "$2" ;;
	--environment) _chaosbpf_words 'test staging production' "$2" ;;
	--since) _chaosbpf_words '1d 7d 30d 90d' "$2" ;;
	--html | --database | --prometheus | --compare | --save) _filedir 2>/dev/null || mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	--experiment) mapfile -t COMPREPLY < <(compgen -W "$(_chaosbpf_history experiment)" -- "$2") ;;
	--to | --endpoint) mapfile -t COMPREPLY < <(compgen -W "$(_chaosbpf_presets)" -- "$2") ;;
	--port | --process | --cgroup | --container | --pod | --unit | --percent | --max-hits | --max-rate | --seed | --name | --operator | --note | --keep | --rows | --listen | --min-pass-rate) COMPREPLY=() ;;
	*) return 1 ;;
	esac
}

# Names of the presets; needs no root.
_chaosbpf_presets() {
	chaosbpf endpoints --json 2>/dev/null | sed -n 's/^ *"name": "\([A-Za-z0-9._-]*\)",*$/\1/p'
}

# Names of the rules that are loaded; only root may ask.
_chaosbpf_rules() {
	[ "$(id -u)" = 0 ] || return
	chaosbpf status --json 2>/dev/null | sed -n 's/^ *"name": "\([A-Za-z0-9._-]*\)",*$/\1/p'
}

# Numbers of runs (id) or names of experiments; for whoever may read the findings.
_chaosbpf_history() {
	chaosbpf history --json 2>/dev/null | sed -n "s/^ *\"$1\": \"\{0,1\}\([A-Za-z0-9._-]*\)\"\{0,1\},*\$/\1/p" | sort -u
}

_chaosbpf() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' options='' i
	local every='--json --verbose --help'

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-*) ;;
		*)
			command=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	if [ "$command" = exec ]; then
		for ((; i < COMP_CWORD; i++)); do
			# Behind the "--" it is another program's line.
			if [ "${COMP_WORDS[i]}" = -- ]; then
				if declare -F _command_offset >/dev/null; then
					_command_offset $((i + 1))
				else
					mapfile -t COMPREPLY < <(compgen -c -- "$cur")
				fi
				return
			fi
		done
	fi
	_chaosbpf_value "$prev" "$cur" && return

	case $command in
	'')
		_chaosbpf_words 'check load exec inject unload stop status observe events doctor endpoints run history report compare deps help version --help --version' "$cur"
		return
		;;
	check) options='--duration --endpoints' ;;
	load) options='--observe --duration --endpoints --wait --foreground' ;;
	exec) options='--observe --duration --endpoints --' ;;
	endpoints) options='--endpoints' ;;
	run) options='--dry-run --operator --environment --policy --database --endpoints --webhooks' ;;
	inject)
		options='--to --port --protocol --pid --process --cgroup --container --pod --unit --user --side --direction --everything --include-ssh --resolver'
		options+=' --for --percent --per --max-hits --max-rate --seed --name --endpoints --wait --observe --print'
		;;
	deps)
		options='discover test --pid --process --cgroup --container --pod --unit --user --for'
		options+=' --baseline --each --gap --delay --compare --save --operator --environment --policy'
		;;
	status) options='--watch' ;;
	observe)
		options='--to --endpoint --port --pid --process --cgroup --container --pod --unit --user --side --by --for --interval'
		options+=' --follow --rows --wait --endpoints --prometheus --readable --listen'
		;;
	events) options='--follow' ;;
	history) options='--since --experiment --summary --min-pass-rate --fail-on-weakness --note --keep --database' ;;
	report) options='--html --markdown --junit --database' ;;
	compare) options='--database' ;;
	esac
	case $command:$cur in
	*:-*) _chaosbpf_words "$options $every" "$cur" ;;
	check:* | load:* | exec:* | run:*) _chaosbpf_files "$cur" ;;
	inject:*)
		_chaosbpf_words 'half-open= break-after= delay= jitter= distribution= drop drop= refuse=refused refuse=timeout refuse=unreachable refuse=denied dns=nxdomain dns=servfail dns=empty dns=timeout reset accept-silence tls-stall duplicate duplicate= corrupt corrupt= reorder reorder= rate= tokens= status=429 status=500 status=503 retry-after= body=empty body=garbage body=truncated body=html as=openai as=anthropic hang error-event=overloaded error-event=server-error error-event=rate-limit drop-done garble garble.every= grpc=unavailable grpc=resource-exhausted grpc=cancelled grpc=internal grpc=permission-denied break-after.chunks= break-after.how=clean gpu-oom gpu-oom.min-size= gpu-oom.above= gpu-oom.failures= call.library= call.function= call.returns= call.errno= call.delay= reset.inside=true errno.operation= errno.error= errno.path=' "$cur"
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
		;;
	endpoints:*) mapfile -t COMPREPLY < <(compgen -W "$(_chaosbpf_presets)" -- "$cur") ;;
	history:*) _chaosbpf_words 'resolve prune' "$cur" ;;
	report:* | compare:*) mapfile -t COMPREPLY < <(compgen -W "last $(_chaosbpf_history id)" -- "$cur") ;;
	unload:*) mapfile -t COMPREPLY < <(compgen -W "$(_chaosbpf_rules)" -- "$cur") ;;
	help:*) _chaosbpf_words 'check load exec inject unload stop status observe events doctor endpoints run history report compare deps help version' "$cur" ;;
	esac
}

complete -F _chaosbpf chaosbpf
