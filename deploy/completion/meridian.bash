# Completion for bash (and zsh after `autoload -U bashcompinit && bashcompinit`): the programs say themselves which commands and
# options they have, so this file never falls behind them.
_meridian() {
    local cur=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} path=() word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in -*) ;; *) path=("$word") ;; esac
        break
    done
    COMPREPLY=()
    if [ "${cur#-}" != "$cur" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" "${path[@]}" --help=options 2>/dev/null)" -- "$cur")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
    elif [ ${#path[@]} = 0 ] && [ "${program##*/}" = meridian ]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" --help=options 2>/dev/null)" -- "$cur")
    fi
}
complete -o default -F _meridian meridian meridian-agent meridian-aggregator meridian-webhook
