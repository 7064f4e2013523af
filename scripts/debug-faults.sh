# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The part of scripts/debug-guest.sh that lets memory fail, and copies from and to
# user space. See "Memory that fails" in Documentation/testing.md.

INJECTORS=(failslab fail_page_alloc)
# Copies from and to user space fail only where the module makes them: nothing
# in the guest would run if they failed everywhere.
MODULE_INJECTORS=("${INJECTORS[@]}" fail_usercopy)
BUDGET=1000000000 # what "times" counts down from at each failure
WATCH=/mrx/build/selftests-debug/sites/mrx_sites.ko
SWEEP=/mrx/build/selftests/sweep.so
VERBOSE=${MRX_VERBOSE:-0}

# code: where the code of the loaded module begins, and its size
code() {
	echo "$(cat /sys/module/ib_mrx/sections/.text)" \
		"0x$(readelf -SW "$MRX_KO" | sed -nE 's/^.* \.text +PROGBITS +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) .*/\1/p')"
}

# watch: from now on the allocation sites of the module are counted, which must not be
# loaded yet.
watch() { insmod "$WATCH" module=ib_mrx; }

# seen NAME: keeps what was counted.
seen() {
	cat $DEBUG/mrx_sites >"$LOGS/$1.sites"
	echo "# $(awk '$1 ~ /slab|page/' "$LOGS/$1.sites" | wc -l) allocation sites were reached," \
		"$(awk '$1 ~ /slab|page/ && $5 > 0' "$LOGS/$1.sites" | wc -l) of them failed"
}

# set_up FILE VALUE: injectors lack some of the files.
set_up() { [ ! -e "$1" ] || echo "$2" >"$1"; }

# aim WHERE: whose allocations fail once something lets them fail. WHERE is
# "module", "tests", "all", or "FIRST-LAST", two addresses between which the stack
# has to have one.
aim() {
	local injector folder start size depth=0 end=0xffffffffffffffff tasks=N
	start=0
	case $1 in
	module)
		read -r start size < <(code)
		end=$(printf '0x%x' $((start + size)))
		depth=32
		;;
	0x*-0x*)
		start=${1%-*} end=${1#*-}
		depth=32
		;;
	tests) tasks=Y ;;
	esac
	[ "$depth" -eq 0 ] || INJECTORS=("${MODULE_INJECTORS[@]}")
	for injector in "${INJECTORS[@]}"; do
		folder=$DEBUG/$injector
		set_up "$folder/ignore-gfp-wait" N
		set_up "$folder/ignore-gfp-highmem" N
		set_up "$folder/min-order" 0
		set_up "$folder/cache-filter" N
		set_up "$folder/task-filter" "$tasks"
		set_up "$folder/space" 0
		set_up "$folder/verbose" "$VERBOSE"
		set_up "$folder/verbose_ratelimit_interval_ms" 0
		set_up "$folder/stacktrace-depth" "$depth"
		set_up "$folder/require-start" "$start"
		set_up "$folder/require-end" "$end"
		set_up "$folder/times" "$BUDGET"
	done
}

# arm WHERE NTH: every NTH of them fails.
arm() {
	local injector
	aim "$1"
	for injector in "${INJECTORS[@]}"; do
		echo "$2" >"$DEBUG/$injector/interval"
		echo 100 >"$DEBUG/$injector/probability"
	done
}

disarm() {
	local injector
	for injector in "${INJECTORS[@]}"; do
		# opening the file needs memory, too
		until echo 0 >"$DEBUG/$injector/probability"; do :; done 2>/dev/null
	done
}

# failures: how many there were since the last aim.
failures() {
	local injector sum=0
	for injector in "${INJECTORS[@]}"; do
		sum=$((sum + BUDGET - $(cat "$DEBUG/$injector/times")))
	done
	echo "$sum"
}

# selftest ARGUMENT...: a program that fails while it is loaded is started again.
# Its processes are those that the failures of "tests" are for.
selftest() {
	local tries
	for ((tries = 0; tries < 20; tries++)); do
		(
			echo 1 >"/proc/$BASHPID/make-it-fail"
			exec "$SELFTEST" --device $DEVICE --patience "$PATIENCE" "$@"
		) >/tmp/selftest 2>&1 || true
		! grep -q '^1\.\.' /tmp/selftest || return 0
	done
}

# quoted: a program's KTAP, of which no line is a verdict of ours.
quoted() { sed -e 's/^not ok /failed: /' -e 's/^ok /passed: /' -e 's/^/# /' "$1"; }

# works_afterwards: a new device is none the worse for what happened to the last.
works_afterwards() {
	local status=0
	up
	"$SELFTEST" --device $DEVICE --patience "$PATIENCE" --filter transfer: >/tmp/selftest 2>&1 || status=$?
	[ "$status" -eq 0 ] || quoted /tmp/selftest
	verdict "$status" "a new device works afterwards"
	rdma link delete $DEVICE
	unload
}

faults() {
	local where=$1 nth status
	local -a nths
	IFS=, read -ra nths <<<"$2"
	shift 2
	begin
	watch
	up
	for nth in "${nths[@]}"; do
		mark "begin faults $nth"
		arm "$where" "$nth"
		selftest "$@"
		disarm
		mark "end faults $nth"
		quoted /tmp/selftest
		echo "# $(failures) failures"
		status=0
		grep -q '^# [0-9]* passed, ' /tmp/selftest || status=1
		verdict "$status" "mrx-selftest runs to its end while every ${nth}th allocation fails ($where)"
	done
	seen "$where"
	down
	works_afterwards
}

# swept NAME COMMAND...: runs a program whose calls are swept.
swept() {
	local name=$1 status=0 counts odd
	shift
	rm -f /tmp/sweep /tmp/sweep.odd
	env MRX_SWEEP=/tmp/sweep LD_PRELOAD=$SWEEP "$@" 2>&1 | tee "$LOGS/swept-${name// /-}" >/tmp/swept || status=$?
	mapfile -t counts < <(od -An -v -w4 -tu4 -N 16 /tmp/sweep | tr -d ' ')
	echo "# $name: ${counts[0]} calls, in which ${counts[1]} allocations failed, and ${counts[2]} calls succeeded without"
	odd=${counts[3]}
	sort /tmp/sweep.odd | uniq -c | sed 's/^ */# odd: /'
	verdict "$odd" "a call of $name that lacks memory says so"
	return "$status"
}

# ended NAME: the program came to its end, whatever it found.
ended() {
	local status=0
	quoted /tmp/swept
	grep -q '^1\.\.' /tmp/swept || status=1
	verdict "$status" "$1 runs to its end"
}

sweep() {
	local status=0 client
	begin
	watch
	up
	aim module
	mark "begin sweep"
	swept mrx-selftest "$SELFTEST" --device $DEVICE --patience "$PATIENCE" "$@" || status=$?
	sed 's/^/  /' /tmp/swept
	verdict "$status" "mrx-selftest notices nothing of allocations that fail"
	# Their counts of calls and of faults differ when calls are repeated.
	if [ $# -eq 0 ]; then
		for client in c rust; do
			insmod "$MRX_TEST_MODULES/peer/mrx_peer_$client.ko"
			swept "peer_test $client" /mrx/build/selftests/peer_test "$client" data protocol revoke || true
			ended "peer_test with the client $client"
			rmmod "mrx_peer_$client"
		done
		modprobe -q udmabuf || true
		insmod "${MRX_KO%/*}/selftests/odp/exporter/mrx_test_exporter.ko"
		swept odp timeout $((120 * PATIENCE)) /mrx/build/selftests/odp paging advise layout dmabuf || true
		ended odp
		rmmod mrx_test_exporter
	fi
	mark "end sweep"
	seen sweep
	down
	works_afterwards
}

MOST=100000 # allocations of one call; a link has thousands of addresses

# after NTH: the failure to try next. Most of the many are of the core's own.
after() { echo $(($1 < 40 ? $1 + 1 : $1 + $1 / 4)); }

# start: in these, the task that fails is the one that calls.
start() {
	local nth failed status text first last
	begin
	watch
	# what is called from here runs the module's own beginning
	text=$(awk '$3 == "do_init_module" { print $1; getline; print $1 }' <(sort /proc/kallsyms) | tr '\n' ' ')
	read -r first last <<<"$text"
	aim "0x$first-0x$last"
	mark "begin start"
	for ((nth = 1, status = 1; nth < MOST; nth = $(after $nth))); do
		failed=$(failures)
		if (
			echo "$nth" >"/proc/$BASHPID/fail-nth"
			exec insmod "$MRX_KO"
		) >/tmp/insmod 2>&1; then
			# the allocation that failed may be one that can be done without
			[ "$(failures)" -ne "$failed" ] || {
				status=0
				break
			}
			unload
		fi
	done
	verdict "$status" "the module is loaded once none of its first $nth allocations fails"
	aim module
	for ((nth = 1, status = 1; nth < MOST; nth = $(after $nth))); do
		failed=$(failures)
		if (
			echo "$nth" >"/proc/$BASHPID/fail-nth"
			exec rdma link add $DEVICE type mrx netdev lo
		) >/tmp/link 2>&1; then
			[ "$(failures)" -ne "$failed" ] || {
				status=0
				break
			}
			# It lacks nothing then: the module finds it, and takes it along.
			unload
			insmod "$MRX_KO"
			aim module
		elif rdma link show $DEVICE/1 >/dev/null 2>&1; then
			echo "# try $nth: $(cat /tmp/link), and the link is there"
			break
		fi
	done
	verdict "$status" "the link is added once none of its first $nth allocations fails"
	# shellcheck disable=SC2034 # what "down" looks at
	RESOURCES=$(rdma resource show $DEVICE)
	mark "end start"
	seen start
	down
	works_afterwards
}


# ---- each site fails when it is reached

REFUSALS=2 # what is not to be had at once may be tried in pieces, at the same site
TRIES=200  # after which something is wrong

# refused: how many allocations and copies were refused until now.
refused() { awk '/^[a-z]/ { sum += $5 } END { print sum + 0 }' $DEBUG/mrx_sites; }

# hunted NAME COMMAND...: does it again and again while sites that it reaches are
# refused. When nothing is any more, it has to succeed.
hunted() {
	local name=$1 tries=0 before status=1 log
	log=$LOGS/hunt-$(tr -c 'a-zA-Z0-9\n' - <<<"$name")
	rm -f "$log"
	shift
	while [ "$tries" -lt "$TRIES" ]; do
		tries=$((tries + 1))
		before=$(refused)
		status=0
		"$@" >/tmp/hunted 2>&1 </dev/null || status=$?
		{
			echo "--- try $tries: status $status, $(($(refused) - before)) refusals"
			cat /tmp/hunted
		} >>"$log"
		[ "$(refused)" -ne "$before" ] || break
		status=1
	done
	[ "$status" -eq 0 ] || quoted /tmp/hunted
	verdict "$status" "$name (try $tries, $(refused) refusals so far)"
}

# What was made in spite of a refusal may lack something, so it is made again.
load_again() { # MODULE FILE
	[ ! -d "/sys/module/$1" ] || rmmod "$1"
	insmod "$2"
}

add_again() {
	! rdma link show $DEVICE/1 >/dev/null 2>&1 || rdma link delete $DEVICE
	rdma link add $DEVICE type mrx netdev lo
}

# What of mrx-selftest is still to pass: arguments that choose it.
LEFT=()

tests_that_are_left() {
	local status=0
	"$SELFTEST" --device $DEVICE --patience "$PATIENCE" "${LEFT[@]}" | tee /tmp/left || status=$?
	[ "$status" -eq 0 ] ||
		mapfile -t LEFT < <(sed -nE 's/^not ok [0-9]+ (.*)$/--filter\n\1/p' /tmp/left)
	return "$status"
}

# hunted_suite NAME [PATTERN]: a suite of selftests/guest as a whole, or one by one the tests
# of it that the pattern matches.
hunted_suite() {
	local file=/mrx/selftests/guest/$1.test.sh name names
	if [ $# -eq 1 ]; then
		hunted "$1" bash "$file"
		return
	fi
	names=$(sed -nE 's/^test_([a-zA-Z0-9_]+)\(\) \{$/\1/p' "$file" | grep -E "$2")
	for name in $names; do
		hunted "$1: ${name//_/ }" bash "$file" --one "$name"
	done
}

# refuse TIMES: from now on.
refuse() { echo "$1" >/sys/module/mrx_sites/parameters/refusals; }

# hunt WHAT [ARGUMENT...]: "verbs" is loading, adding, mrx-selftest and what suites of
# selftests/guest have besides, "clients" the tests of peer memory and of paging.
hunt() {
	local what=$1
	shift
	begin
	watch
	mark "begin hunt"
	"hunt_$what" "$@"
	mark "end hunt"
	seen "hunt-$what"
	refuse 0
	works_afterwards
}

hunt_verbs() {
	refuse $REFUSALS
	hunted "the module is loaded" load_again ib_mrx "$MRX_KO"
	hunted "the link is added" add_again
	# shellcheck disable=SC2034 # what "down" looks at
	RESOURCES=$(rdma resource show $DEVICE)
	LEFT=("$@")
	hunted "mrx-selftest" tests_that_are_left
	down
	[ $# -gt 0 ] || hunt_suites
}

# hunt_suites: what they share with mrx-selftest is refused no more by now. Most take
# half a minute for each refusal.
hunt_suites() {
	export MRX_PATIENCE=$PATIENCE
	hunted_suite 15_kapi
	# A test of it may wait for an event that ib_uverbs had no memory for, until its
	# time is over; that should not be long.
	MRX_PATIENCE=3 hunted_suite 28_pyverbs
	hunted_suite 27_kernel_users invalidation
	hunted_suite 26_cm '^(rping|ucmatose|udaddy|mckey)'
	hunted_suite 10_link 'veth|follow|renamed'
	[ ! -d /sys/module/ib_mrx ] || unload
	leaks "by the suites"
}

# peer_test_again CLIENT GROUP: a program that gave up leaves its client registered.
peer_test_again() {
	load_again "mrx_peer_$1" "$MRX_TEST_MODULES/peer/mrx_peer_$1.ko"
	timeout $((12 * PATIENCE)) /mrx/build/selftests/peer_test "$@"
}

hunt_clients() {
	local client group groups
	up
	refuse $REFUSALS
	for client in c rust; do
		# The Rust client can lack no callback, and keeps no data of contexts.
		groups=(data protocol revoke change names)
		[ $client = rust ] || groups+=(private refusal)
		for group in "${groups[@]}"; do
			hunted "peer_test $client $group" peer_test_again $client $group
		done
		rmmod mrx_peer_$client
	done
	modprobe -q udmabuf || true
	modprobe -q system_heap || true
	insmod "${MRX_KO%/*}/selftests/odp/exporter/mrx_test_exporter.ko"
	for group in paging change fuse advise layout rereg dmabuf; do
		hunted "odp $group" timeout $((120 * PATIENCE)) /mrx/build/selftests/odp $group
	done
	rmmod mrx_test_exporter
	down
}
