#!/bin/sh
# The clock laboratory: two network namespaces joined by a routing third, real packets, a simulated clock under
# the client. Prints goal and measured value per row for each load. Needs root; leaves nothing behind.
#   CLOCKLAB_SECONDS=90   per scenario
#   CLOCKLAB_SCENARIOS="idle busy2 busy4 user nng saturated"
#   CLOCKLAB_CHRONY=1     chronyd runs beside each scenario with kernel stamps, for comparison; 0: it does not
set -eu
cd "$(dirname "$0")/.."
lab=${CLOCKLAB_BIN:-build/bin/clocklab}
seconds=${CLOCKLAB_SECONDS:-90}
scenarios=${CLOCKLAB_SCENARIOS:-idle busy2 busy4 user nng saturated}

[ "$(id -u)" = 0 ] || { echo "clocklab: needs root for network namespaces; run: sudo make clocklab" >&2; exit 2; }
command -v ip >/dev/null && command -v tc >/dev/null ||
    { echo "clocklab: install iproute2" >&2; exit 2; }
[ -x "$lab" ] || { echo "clocklab: $lab is missing; run make" >&2; exit 2; }

a=mrdlab$$a r=mrdlab$$r b=mrdlab$$b
said=$(mktemp) rival=""
cleanup() {
    [ -z "$rival" ] || kill "$rival" 2>/dev/null || true
    rm -f "$said"
    for ns in $a $r $b; do ip netns del $ns 2>/dev/null || true; done
}
trap cleanup EXIT
trap 'exit 130' INT TERM
for ns in $a $r $b; do ip netns add $ns; ip -n $ns link set lo up; done
ip link add va netns $a type veth peer name ra netns $r
ip link add vb netns $b type veth peer name rb netns $r
ip -n $a addr add 10.77.1.1/24 dev va; ip -n $r addr add 10.77.1.2/24 dev ra
ip -n $b addr add 10.77.2.1/24 dev vb; ip -n $r addr add 10.77.2.2/24 dev rb
for pair in "$a va" "$r ra" "$r rb" "$b vb"; do ip -n ${pair% *} link set ${pair#* } up; done
ip netns exec $r sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
ip -n $a route add default via 10.77.1.2
ip -n $b route add default via 10.77.2.2

echo "clock laboratory on $(uname -srm), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg): real packets,"
echo "simulated clock (37 ppm, 0.3 ppm wander, a year ahead); 1 pair/s, w 200 ppb/s, estimate 50 ppb/s"
status=0
for scenario in $scenarios; do
    if [ "$scenario" = saturated ]; then # a link has its rate in both directions, the stream fills one
        for dev in ra rb; do tc -n $r qdisc add dev $dev root tbf rate 1gbit burst 64kb latency 2ms; done
    fi
    rival=""
    case $scenario in
    idle | busy2 | busy4 | saturated)
        if [ "${CLOCKLAB_CHRONY:-1}" = 1 ]; then
            tests/clocklab/chrony.py $a $b 10.77.2.1 "$seconds" >"$said" 2>&1 & rival=$!
        fi ;;
    esac
    code=0
    "$lab" $a $b 10.77.2.1 "$scenario" "$seconds" || code=$?
    if [ -n "$rival" ]; then
        wait $rival || true # it judges nothing
        rival=""
        cat "$said"
    fi
    case $code in
    0) ;;
    1) echo "clocklab: $scenario: an event was outside its bound, or out of order" >&2; status=1 ;;
    3) [ $status = 1 ] || status=3 ;;
    *) exit $code ;;
    esac
done
[ $status = 0 ] && echo "clocklab: every goal met" || echo "clocklab: goals were missed (see MISSED above)"
exit $status
