# bash completion for swiftlet. Commands, options and the values of options are asked of the program itself.
_swiftlet() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
	local program=${COMP_WORDS[0]} words=
	if ((COMP_CWORD == 1)); then
		words="$("$program" --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p') --help --version"
	elif [[ $before == --* ]]; then # its values stand behind it: --name a|b|c
		words=$("$program" "$command" --help-all 2>/dev/null |
			sed -n "s/^  \(-., \)\{0,1\}$before \([a-z0-9_-]*|[a-zA-Z0-9_|-]*\).*/\2/p" | tr '|' ' ')
	fi
	if [[ -z $words && $word == -* ]]; then
		words=$("$program" "$command" --help-all 2>/dev/null | grep -oE '^  (-., )?--[a-z][a-z0-9-]*' | grep -o -- '--.*')
	elif [[ -z $words && $command == masks ]] && ((COMP_CWORD == 2)); then
		words="list show export import delete"
	elif [[ -z $words && $command == bench ]] && ((COMP_CWORD == 2)); then
		words=$("$program" bench --help 2>/dev/null | sed -n 's/^  \([a-z-]*\)  *[a-zA-Z].*/\1/p')
	elif [[ -z $words && ($before == -m || $before == --model || COMP_CWORD -eq 2) ]]; then
		words=$("$program" list --json 2>/dev/null | grep -o '"name":"[^"]*"' | cut -d '"' -f 4)
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	if ((${#COMPREPLY[@]} == 0)); then
		compopt -o default
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -F _swiftlet swiftlet
