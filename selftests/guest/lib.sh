# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the suites share. A suite is a file NAME.test.sh that sources this,
# defines functions test_SENTENCE and ends with: run_suite "$@". It prints KTAP
# (Documentation/dev-tools/ktap.rst). Each test runs in a process and a session
# of its own, with a limit on its time, and what it made is taken down at its
# end; a test that left objects, devices or processes fails.
#
#   NAME.test.sh [--filter GLOB]   GLOB is matched against "NAME SENTENCE"
#   NAME.test.sh --one FUNCTION    one test, named like its function without
#                                  test_, and all that it prints
#
#   MRX_KO            the module; default /mrx/build/module/ib_mrx.ko
#   MRX_TEST_MODULES  the folder of the modules that scripts/selftest-modules.sh
#                     builds; default /mrx/build/selftests
#   MRX_PATIENCE      what limits on time are multiplied with, for a slow machine
#                     or a debug kernel; default 1
#   MRX_SKIPS         a file of tests to skip, such as debug.skips
#   MRX_LIMIT         seconds that a test may take, whatever the patience; default
#                     90, or what the suite wants
#
# A suite may set LIMIT, the seconds that a test may take, and STEP, those that
# one step of it may take, before it sources this.

set -euo pipefail

SUITE_FILE=$(realpath "$0")
SUITE=$(basename "$0" .test.sh)
MRX_TOP=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
MRX_KO=${MRX_KO:-$MRX_TOP/build/module/ib_mrx.ko}
MRX_TEST_MODULES=${MRX_TEST_MODULES:-$MRX_TOP/build/selftests}
MRX_PATIENCE=${MRX_PATIENCE:-1}
MRX_LIMIT=${MRX_LIMIT:-$((${LIMIT:-90} * MRX_PATIENCE))}
WORK=${WORK:-$(mktemp -d /tmp/mrx-guest.XXXXXX)}
PASSED=0 FAILED=1 SKIPPED=4 # statuses of a test's process
PATIENCE=$((${STEP:-20} * MRX_PATIENCE)) # seconds that one step of a test may take
LONG=5                      # seconds from which on the time of a test is told

# ---- what a test says

say() { printf '%s\n' "$*"; }

fail() {
	say "$*"
	exit "$FAILED"
}

skip() {
	say "$*"
	exit "$SKIPPED"
}

# ---- waiting

mkfifo -m 600 "$WORK/never" 2>/dev/null || true
exec {NEVER}<>"$WORK/never"

# nap SECONDS: like sleep, without a process.
nap() { read -rt "$1" -u "$NEVER" || true; }

# eventually SECONDS COMMAND...: tries until it succeeds.
eventually() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		nap 0.05
	done
}

# gone PID: it has ended. The shell may not have waited for it yet.
gone() {
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
	[[ ${stat##*) } == [ZX]* ]]
}

# ends PID WHAT: waits for a process and hands back its status.
ends() {
	eventually "$PATIENCE" gone "$1" || {
		states "$1"
		fail "$2 does not end"
	}
	wait "$1"
}

# states PID...: where processes are, for whoever reads the report.
states() {
	local pid
	for pid; do
		say "process $pid ($(cat "/proc/$pid/comm" 2>/dev/null)): $(grep State "/proc/$pid/status" 2>/dev/null)"
		cat "/proc/$pid/stack" 2>/dev/null || true
	done
}

# refused TEXT COMMAND...: the command fails and says TEXT.
refused() {
	local text=$1 output
	shift
	if output=$("$@" 2>&1); then
		fail "not refused: $*"
	fi
	[[ $output == *"$text"* ]] || fail "$* was refused with \"$output\", not with \"$text\""
}

# equal WANT HAVE WHAT
equal() { [ "$1" = "$2" ] || fail "$3: $2, not $1"; }

# ---- modules

is_loaded() { [ -d "/sys/module/$1" ]; }

load_mrx() {
	is_loaded ib_mrx || {
		modprobe -a ib_uverbs rdma_ucm
		insmod "$MRX_KO"
	}
}

load_rxe() { modprobe rdma_rxe; }

unload() { ! is_loaded "$1" || rmmod "$1"; }

# A test sets it to the module that must not stay loaded when it ends.
UNLOAD_AFTER=''

# unload_soon NAME: what has just closed a device may still be on its way out.
unload_soon() { eventually "$PATIENCE" unload "$1" 2>"$WORK/rmmod" || fail "$(tail -n 1 "$WORK/rmmod")"; }

# ---- interfaces and links

# dummy NAME ADDRESS...
dummy() {
	local name=$1 address
	shift
	ip link add "$name" type dummy
	ip link set "$name" up
	for address; do
		ip address add "$address" dev "$name"
	done
}

# veth NAME PEER ADDRESS PEER_ADDRESS
veth() {
	# both ends are in one kernel, whose ARP drops what bears an address of its own
	echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
	ip link add "$1" type veth peer name "$2"
	ip address add "$3" dev "$1"
	ip address add "$4" dev "$2"
	ip link set "$1" up
	ip link set "$2" up
}

declare -A HELD # what the kernel itself holds of a device

# link TYPE DEVICE INTERFACE
link() {
	rdma link add "$2" type "$1" netdev "$3" || fail "no link $2 of type $1 on $3"
	HELD[$2]=$(rdma resource show "$2")
}

unlink_dev() { rdma link delete "$1" || fail "$1 cannot be deleted"; }

exists() { [ -e "/sys/class/infiniband/$1" ]; }
is_gone() { ! exists "$1"; }
devices() { ls /sys/class/infiniband 2>/dev/null || true; }

vanishes() { eventually "$PATIENCE" is_gone "$1" || fail "the device $1 does not go"; }

# gids DEVICE: the addresses in its table, one a line.
gids() {
	cat "/sys/class/infiniband/$1/ports/1/gids/"{0..15} 2>/dev/null |
		grep -v '^0000:0000:0000:0000:0000:0000:0000:0000$' || true
}

# gid_index DEVICE: that of its IPv4 address, or else its first.
gid_index() {
	local index gid
	for index in {0..15}; do
		read -r gid <"/sys/class/infiniband/$1/ports/1/gids/$index" || continue
		[[ $gid != *:0000:ffff:* ]] || {
			echo "$index"
			return
		}
	done
	echo 0
}

# port_state DEVICE: such as "ACTIVE".
port_state() { cut -d' ' -f2 "/sys/class/infiniband/$1/ports/1/state"; }
port_is() { [ "$(port_state "$1")" = "$2" ]; }

_is_back() { [ "$(rdma resource show "$1")" = "${HELD[$1]}" ]; }

# resources_are_zero DEVICE: no object of a program is left on it.
resources_are_zero() {
	local type
	# the 0 matters: in a trap, the default is the status from before it
	eventually "$PATIENCE" _is_back "$1" && return 0
	rdma resource show "$1"
	for type in pd cq qp cm_id mr ctx srq; do
		rdma resource show "$type" 2>/dev/null | grep -w "$1" || true
	done
	return 1
}

# ---- programs

PORT=18600

listens_or_gone() {
	gone "$1" || grep -qE "$(printf ':%04X [0-9A-F]+:0000 0A' "$PORT")" "/proc/$1/net/tcp" "/proc/$1/net/tcp6" 2>/dev/null
}

# serve COMMAND...: starts the server SERVER, which listens on $PORT when this
# returns. Its output goes to $WORK/server.
serve() {
	"$@" >"$WORK/server" 2>&1 &
	SERVER=$!
	eventually "$PATIENCE" listens_or_gone "$SERVER" || fail "the server does not listen: $*"
	! gone "$SERVER" || {
		cat "$WORK/server"
		fail "the server did not start: $*"
	}
}

# talk COMMAND... [-- COMMAND...]: a server and its client both end well. The
# client's command is the server's when it is not given; both get the port, and
# the client the server's host.
talk() {
	local server=() client=() status=0
	PORT=$((PORT + 1))
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	[ $# -eq 0 ] || shift
	client=("$@")
	[ ${#client[@]} -gt 0 ] || client=("${server[@]}")
	serve "${server[@]}" -p "$PORT"
	timeout "$PATIENCE" "${client[@]}" -p "$PORT" localhost >"$WORK/client" 2>&1 || status=$?
	[ "$status" -eq 0 ] || {
		cat "$WORK/client"
		[ "$status" -ne 124 ] || status="$status (its time was over)"
		say "--- the server said"
		cat "$WORK/server"
		fail "the client ended with status $status: ${client[*]}"
	}
	ends "$SERVER" "the server" || {
		status=$?
		cat "$WORK/server"
		fail "the server ended with status $status: ${server[*]}"
	}
	! grep -iE 'invalid data|error|fail|couldn' "$WORK/client" "$WORK/server" || fail "said by ${client[*]}"
}

# pingpong DEVICE [ARGUMENT...]
pingpong() {
	local device=$1
	shift
	talk ibv_rc_pingpong -d "$device" -g "$(gid_index "$device")" -n 100 -c "$@"
}

# perf PROGRAM DEVICE [ARGUMENT...]
perf() {
	local program=$1 device=$2
	shift 2
	talk "$program" -d "$device" -F "$@"
}

# ---- the kernel's log

# mark_log, log_since_mark: what the kernel said in between.
mark_log() {
	MARK="mrx-guest mark $$.$((++MARKS))"
	echo "$MARK" >/dev/kmsg
}
MARKS=0
# Where so much was said that the mark is gone, it is all that is left.
log_since_mark() {
	dmesg >"$WORK/whole"
	if grep -q "$MARK" "$WORK/whole"; then sed "1,/$MARK/d" "$WORK/whole"; else cat "$WORK/whole"; fi
}

# ---- taking down

# own_session ARGUMENT...: runs the suite in a session of its own, as _tear_down
# wants it, unless it is in one. For suites that bring a runner of their own.
own_session() {
	[ "$(ps -o sid= -p $$ | tr -d ' ')" = $$ ] || exec setsid --wait bash "$SUITE_FILE" "$@"
}

_no_devices() { [ -z "$(devices)" ]; }
_mode_is_shared() { [[ $(rdma system show) == *"netns shared"* ]] || rdma system set netns shared 2>/dev/null; }

# _tear_down: takes down what a test made, and fails a test that left objects.
_tear_down() {
	# shellcheck disable=SC2319 # that of what ended the test
	local status=$?
	local device interface pid pids
	trap - EXIT
	set +e
	# the programs of this test are in its session
	pids=()
	for pid in $(pgrep -s 0); do
		[ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] || [ "$pid" = "$PPID" ] || pids+=("$pid")
	done
	kill -KILL "${pids[@]}" 2>/dev/null
	for pid in "${pids[@]}"; do
		eventually "$PATIENCE" gone "$pid" || {
			states "$pid"
			say "process $pid cannot be killed"
			status=$FAILED
		}
	done
	for device in "${!HELD[@]}"; do
		is_gone "$device" || resources_are_zero "$device" || {
			say "objects are left on $device"
			status=$FAILED
		}
	done
	# a device that is in a namespace comes back when that goes
	for interface in $(ip netns list | cut -d' ' -f1); do
		ip netns delete "$interface"
	done
	eventually "$PATIENCE" _mode_is_shared || say "the RDMA system stays in exclusive mode"
	for device in $(devices); do
		rdma link delete "$device"
	done
	for interface in $(ip -o link show | sed -nE 's/^[0-9]+: ([^:@]+).*/\1/p'); do
		[ "$interface" = lo ] || ip link delete "$interface" 2>/dev/null
	done
	ip link set lo up
	eventually "$PATIENCE" _no_devices || {
		say "devices are left: $(devices)"
		status=$FAILED
	}
	[ -z "$UNLOAD_AFTER" ] || unload "$UNLOAD_AFTER"
	exit "$status"
}

# ---- running

test_names() { sed -nE 's/^test_([a-zA-Z0-9_]+)\(\) \{$/\1/p' "$SUITE_FILE"; }

_number=0 _failures=0 _skips=0

# _verdict STATUS NAME LOG_FILE
_verdict() {
	local status=$1 name=$2 log=$3
	_number=$((_number + 1))
	if [ "$status" -eq "$SKIPPED" ]; then
		_skips=$((_skips + 1))
		say "ok $_number $name # SKIP $(tail -n 1 "$log")"
		return
	fi
	if [ "$status" -eq "$PASSED" ]; then
		say "ok $_number $name"
		return
	fi
	_failures=$((_failures + 1))
	sed 's/^/# /' "$log"
	say "not ok $_number $name"
}

# reason_to_skip SUITE [NAME OF TEST]: from the file MRX_SKIPS.
reason_to_skip() {
	[ -z "${MRX_SKIPS:-}" ] || awk -F '\t' -v name="$*" '$1 == name { print $2 }' "$MRX_SKIPS"
}

# _run_test FUNCTION_NAME
_run_test() {
	local session status=0 log=$WORK/log started=$SECONDS
	reason_to_skip "$SUITE" "${1//_/ }" >"$log"
	if [ -s "$log" ]; then
		_verdict "$SKIPPED" "${1//_/ }" "$log"
		return
	fi
	setsid timeout --kill-after=10 "$MRX_LIMIT" bash "$SUITE_FILE" --run "$1" >"$log" 2>&1 </dev/null &
	session=$!
	if eventually $((MRX_LIMIT + 30)) gone "$session"; then
		wait "$session" || status=$?
		case $status in
		"$PASSED" | "$FAILED" | "$SKIPPED") ;;
		124 | 137) say "its time was over after $((SECONDS - started)) s" >>"$log" ;;
		*) say "it ended with status $status" >>"$log" ;;
		esac
	else
		status=$FAILED
		say "it hangs and cannot be killed" >>"$log"
		# what blocks it is for the kernel's log
		echo w >/proc/sysrq-trigger
	fi
	if pgrep -s "$session" >/dev/null; then
		# shellcheck disable=SC2046 # several processes
		states $(pgrep -s "$session") >>"$log"
		say "processes are left" >>"$log"
		pkill -KILL -s "$session" || true
		status=$FAILED
	fi
	# a test that was killed has not done it
	[ "$status" -le "$FAILED" ] || [ "$status" -eq "$SKIPPED" ] || (_tear_down) >/dev/null 2>&1 || true
	_verdict "$status" "${1//_/ }" "$log"
	[ $((SECONDS - started)) -lt "$LONG" ] || say "# that took $((SECONDS - started)) s"
}

# What has to hold after a suite.
_is_clean() {
	local module
	_no_devices || fail "devices: $(devices)"
	for module in ib_mrx rdma_rxe; do
		is_loaded "$module" || continue
		equal 0 "$(cat "/sys/module/$module/refcnt")" "users of the module $module"
		unload_soon "$module"
		! is_loaded "$module" || fail "$module stays loaded"
	done
}

_log_is_clean() {
	log_since_mark >"$WORK/dmesg"
	[ ! -s "$WORK/dmesg" ] || MRX_BUILD=$WORK "$MRX_TOP/scripts/kernel-log.sh" "$WORK/dmesg" 2>&1
}

# run_suite [--filter GLOB | --one NAME]
run_suite() {
	local name names=() status filter='*'
	case ${1:-} in
	--one)
		[[ $(test_names) == *"$2"* ]] || fail "there is no test $2"
		exec setsid --wait timeout --kill-after=10 "$MRX_LIMIT" bash "$SUITE_FILE" --run "$2"
		;;
	--run) # in a session of its own, all of whose processes end with it
		trap _tear_down EXIT
		# a signal ends the test through the trap
		trap 'exit 124' TERM INT HUP
		"test_$2"
		exit "$PASSED"
		;;
	--filter) filter=$2 ;;
	'') ;;
	*) fail "usage: $0 [--filter GLOB | --one NAME]" ;;
	esac
	export WORK
	for name in $(test_names); do
		# shellcheck disable=SC2053 # a pattern
		[[ "$SUITE ${name//_/ }" != $filter ]] || names+=("$name")
	done
	say "KTAP version 1"
	[ ${#names[@]} -gt 0 ] || {
		say "1..0 # SKIP no test matches"
		exit "$SKIPPED"
	}
	say "1..$((${#names[@]} + 2))"
	mark_log
	for name in "${names[@]}"; do
		_run_test "$name"
	done
	status=0
	(_is_clean) >"$WORK/log" 2>&1 || status=$?
	_verdict "$status" "nothing is left and the modules unload" "$WORK/log"
	status=0
	_log_is_clean >"$WORK/log" 2>&1 || status=$?
	_verdict "$status" "the kernel log holds no report" "$WORK/log"
	say "# $SUITE: passed $((_number - _failures - _skips)), failed $_failures, skipped $_skips"
	rm -rf "$WORK"
	[ "$_failures" -eq 0 ]
}
