# bash completion for swiftlet. The options are asked of the program itself.
_swiftlet() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "run chat stream serve learn masks bench inspect tokenize --help --version" -- "$word")
		return
	fi
	case $before in
	--method) mapfile -t COMPREPLY < <(compgen -W "swift vanilla" -- "$word") ;;
	--backend) mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word") ;;
	--isa) mapfile -t COMPREPLY < <(compgen -W "auto reference avx2 avx-vnni avx512 neon dotprod i8mm" -- "$word") ;;
	--draft) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word") ;;
	--max-tree) mapfile -t COMPREPLY < <(compgen -W "auto paper" -- "$word") ;;
	--bank | --search) mapfile -t COMPREPLY < <(compgen -W "on off" -- "$word") ;;
	--preset) mapfile -t COMPREPLY < <(compgen -W "paper" -- "$word") ;;
	--format) mapfile -t COMPREPLY < <(compgen -W "swiftlet skip_layers" -- "$word") ;;
	--objective) mapfile -t COMPREPLY < <(compgen -W "matchness speedup" -- "$word") ;;
	--acquisition) mapfile -t COMPREPLY < <(compgen -W "ucb ei" -- "$word") ;;
	--kernel) mapfile -t COMPREPLY < <(compgen -W "matern52 hamming" -- "$word") ;;
	--cache-type) mapfile -t COMPREPLY < <(compgen -W "auto f16 f32 q8_0" -- "$word") ;;
	*)
		if [[ $word == -* ]]; then
			local options
			options=$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null | grep -o -- '--[a-z][a-z0-9-]*' | sort -u)
			mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
		elif ((COMP_CWORD == 2)) && [[ $command == masks ]]; then
			mapfile -t COMPREPLY < <(compgen -W "list show export import delete" -- "$word")
		elif ((COMP_CWORD == 2)) && [[ $command == bench ]]; then
			mapfile -t COMPREPLY < <(compgen -W "decode swift learn search kernels gp" -- "$word")
		else
			compopt -o default
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
		fi
		;;
	esac
}
complete -F _swiftlet swiftlet
