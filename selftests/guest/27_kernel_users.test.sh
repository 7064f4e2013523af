#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Users of RDMA in the kernel, and Open MPI over everything.

LIMIT=300 STEP=60
. "$(dirname "$0")/lib.sh"

ADDRESS=10.9.0.1
NVMET=/sys/kernel/config/nvmet

set_up() {
	load_mrx
	dummy mrx0 $ADDRESS/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
}

# afterwards COMMAND: is done before the test is taken down, however it ends.
afterwards() {
	# shellcheck disable=SC2064 # the command is known now
	# shellcheck disable=SC2154 # assigned in the trap
	trap "status=\$?; $1; (exit \$status); _tear_down" EXIT
}

bytes_are_the_same() { cmp "$1" "$2" || fail "$2 differs"; }

end_nvme() {
	set +e
	umount "$WORK/disk" 2>/dev/null
	timeout "$PATIENCE" nvme disconnect -n mrx >/dev/null
	rm -f $NVMET/ports/1/subsystems/mrx
	rmdir $NVMET/ports/1
	echo 0 >$NVMET/subsystems/mrx/namespaces/1/enable
	rmdir $NVMET/subsystems/mrx/namespaces/1 $NVMET/subsystems/mrx
	losetup -d "$LOOP"
	rmmod nvme_rdma nvmet_rdma
	# The core keeps the completion queues of its pool, unused, until the device goes.
	queues=$(rdma resource show rxe_mrx0 | grep -o 'cq [0-9]*')
	HELD["rxe_mrx0"]=$(sed "s/cq [0-9]*/$queues/" <<<"${HELD["rxe_mrx0"]}")
}

test_a_file_system_on_NVMe_over_RDMA() {
	set_up
	modprobe -a nvmet-rdma nvme-rdma loop ext4 || skip "no NVMe modules"
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	truncate -s 64M "$WORK/image"
	LOOP=$(losetup -f)
	[ -e "$LOOP" ] || mknod "$LOOP" b 7 "${LOOP#/dev/loop}"
	losetup "$LOOP" "$WORK/image"
	afterwards end_nvme
	mkdir $NVMET/subsystems/mrx
	echo 1 >$NVMET/subsystems/mrx/attr_allow_any_host
	mkdir $NVMET/subsystems/mrx/namespaces/1 $NVMET/ports/1
	echo -n "$LOOP" >$NVMET/subsystems/mrx/namespaces/1/device_path
	echo 1 >$NVMET/subsystems/mrx/namespaces/1/enable
	echo rdma >$NVMET/ports/1/addr_trtype
	echo ipv4 >$NVMET/ports/1/addr_adrfam
	echo $ADDRESS >$NVMET/ports/1/addr_traddr
	echo 4420 >$NVMET/ports/1/addr_trsvcid
	ln -s $NVMET/subsystems/mrx $NVMET/ports/1/subsystems/mrx
	timeout "$PATIENCE" nvme connect -t rdma -a $ADDRESS -s 4420 -n mrx -i 2 || fail "no connection"
	eventually "$PATIENCE" compgen -G "/dev/nvme*n1" >/dev/null || fail "no disk"
	disk=$(compgen -G "/dev/nvme*n1" | head -n 1)
	mkfs.ext4 -q "$disk"
	mkdir "$WORK/disk"
	mount "$disk" "$WORK/disk"
	dd if=/dev/urandom of="$WORK/data" bs=1M count=16 status=none
	cp "$WORK/data" "$WORK/disk/data"
	umount "$WORK/disk"
	echo 3 >/proc/sys/vm/drop_caches
	mount "$disk" "$WORK/disk"
	bytes_are_the_same "$WORK/data" "$WORK/disk/data"
}

end_nfs() {
	set +e
	umount "$WORK/mount" 2>/dev/null
	rpc.nfsd 0
	pkill -x rpc.mountd
	pkill -x rpcbind
	exportfs -ua
	rm -f /etc/exports
	umount /var/lib/nfs/rpc_pipefs /var/lib/nfs /proc/fs/nfsd "$WORK/exported"
	nap 1
	rmmod rpcrdma
}

test_NFS_over_RDMA() {
	set_up
	modprobe -a nfsd nfs nfsv4 rpcrdma || skip "no NFS modules"
	afterwards end_nfs
	mkdir "$WORK/exported" "$WORK/mount"
	mount -t tmpfs none "$WORK/exported"
	mount -t nfsd none /proc/fs/nfsd
	mount -t tmpfs none /var/lib/nfs
	mkdir -p /var/lib/nfs/{v4recovery,rpc_pipefs,sm,sm.bak} /run/rpcbind
	touch /var/lib/nfs/{etab,rmtab}
	mount -t rpc_pipefs none /var/lib/nfs/rpc_pipefs
	echo "$WORK/exported *(rw,no_root_squash,fsid=0,insecure,no_subtree_check)" >/etc/exports
	rpcbind -w
	exportfs -ra
	rpc.mountd
	# no client from before is to be waited for
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	rpc.nfsd 2
	echo rdma 20049 >/proc/fs/nfsd/portlist
	timeout "$PATIENCE" mount -t nfs4 -o rdma,port=20049,vers=4.2 $ADDRESS:/ "$WORK/mount" || fail "no mount"
	dd if=/dev/urandom of="$WORK/data" bs=1M count=16 status=none
	timeout $((PATIENCE * 3)) cp "$WORK/data" "$WORK/mount/data"
	sync
	echo 3 >/proc/sys/vm/drop_caches
	bytes_are_the_same "$WORK/data" "$WORK/mount/data"
	bytes_are_the_same "$WORK/data" "$WORK/exported/data"
	grep -q "proto=rdma" /proc/mounts || fail "it is not mounted over RDMA"
}

test_a_read_with_invalidation_fetches_and_takes_its_own_key_back() {
	local module=$MRX_TEST_MODULES/kverbs/mrx_kverbs.ko
	set_up
	mark_log
	insmod "$module" device=rxe_mrx0 gid="$(gid_index rxe_mrx0)" || fail "$(log_since_mark | grep mrx_kverbs)"
	rmmod mrx_kverbs
}

test_Open_MPI_over_UCX_over_RDMA() {
	set_up
	local before after
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# the two find each other over TCP and talk over RDMA
	export UCX_TLS=rc_verbs,tcp UCX_NET_DEVICES=rxe_mrx0:1,mrx0
	before=$(rdma statistic show link rxe_mrx0/1 | sed -nE 's/^ *sent_bytes ([0-9]+) *$/\1/p')
	timeout $((PATIENCE * 2)) mpirun --oversubscribe -n 2 --mca pml ucx \
		python3 "$(dirname "$SUITE_FILE")/mpi.py" || fail "it failed"
	after=$(rdma statistic show link rxe_mrx0/1 | sed -nE 's/^ *sent_bytes ([0-9]+) *$/\1/p')
	[ $((after - before)) -gt 1048576 ] || fail "only $((after - before)) bytes went over RDMA"
}

run_suite "$@"
